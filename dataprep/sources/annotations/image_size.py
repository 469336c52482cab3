"""Width and height of an image file from its header."""

import warnings

from PIL import Image, UnidentifiedImageError

from dataprep.images.reasons import reason_of_error, reason_of_unknown
from schemas.images.pixels import orientation, readable_formats
from schemas.images.policy import ImageRejected

_TURNED = 5  # EXIF orientations from this one exchange width and height


def upright_size(path: bytes) -> tuple[int, int]:
    """Return width and height of the image as it is seen, after EXIF orientation.

    Raises ImageRejected if the header cannot be read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with open(path, "rb") as file:
                try:
                    image = Image.open(file, formats=readable_formats())
                except UnidentifiedImageError:
                    file.seek(0)
                    raise ImageRejected(*reason_of_unknown(file.read())) from None
                width, height = image.size
                return (height, width) if orientation(image) >= _TURNED else (width, height)
        except (ImageRejected, MemoryError):
            raise
        except OSError as error:
            if error.errno is None:  # of Pillow
                raise ImageRejected(*reason_of_error(error)) from None
            raise ImageRejected("unreadable", str(error.strerror)) from None
        except Exception as error:  # any error of Pillow's parsers
            raise ImageRejected(*reason_of_error(error)) from None
