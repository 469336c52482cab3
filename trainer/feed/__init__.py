"""The data pipeline: a sealed set, checked, to batches. Does the feed keep up?"""
