"""Layouts with annotation files beside the images: COCO, VOC, YOLO and mask folders."""
