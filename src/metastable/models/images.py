"""Pictures for vision models: files and arrays to pixel values, as the model's own processor makes them.

Patches are tokens, in rows from the top left; the class token and registers, which come first, are special tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")


def image_files(folder: str | Path, limit: int | None = None) -> list[Path]:
    """The pictures in a folder, in the order of their names.

    Examples
    --------
    >>> image_files("no/such/folder")
    Traceback (most recent call last):
    metastable.errors.InputError: There is no folder 'no/such/folder' with pictures.
    """
    home = Path(folder).expanduser()
    if not home.is_dir():
        raise InputError(f"There is no folder {str(folder)!r} with pictures.")
    found = sorted(path for path in home.iterdir() if path.suffix.lower() in _ENDINGS and path.is_file())
    if not found:
        raise InputError(f"The folder {str(folder)!r} holds no picture ({', '.join(_ENDINGS)}).")
    return found[:limit]


@dataclass(frozen=True)
class Images:
    """How a vision model reads pictures: ``pixels`` makes an array (channels, height, width) of one."""

    pixels: "Callable[[Image], np.ndarray]" = field(repr=False)
    note: str = ""

    def __call__(self, item: Any) -> np.ndarray:
        """Pixel values of a file, a Pillow picture or an array of bytes; an array of floats is taken as it is."""
        if not isinstance(item, (str, Path)) and not hasattr(item, "getbands"):
            array = np.asarray(item)
            if array.dtype.kind == "f" and array.ndim == 3:
                return array.astype(np.float32)
            if array.dtype != np.uint8 or array.ndim not in (2, 3):
                raise InputError(
                    "A picture is a file, a Pillow picture, bytes (height, width[, 3]) or ready pixel values "
                    f"(3, height, width) as floats, not an array {array.shape} of {array.dtype}."
                )
        return np.asarray(self.pixels(_opened(item)), dtype=np.float32)


def from_processor(processor: Any) -> Images:
    """Pictures through an image processor of ``transformers``."""

    def pixels(picture: "Image") -> np.ndarray:
        return np.asarray(processor(images=picture, return_tensors="np")["pixel_values"][0])

    return Images(pixels)


def plain(config: Any) -> Images:
    """Pictures for a model that came without a processor: shorter side to the model's size, centre cut out, [-1, 1]."""
    height, width = picture_size(config)

    def pixels(picture: "Image") -> np.ndarray:
        scale = max(width / picture.width, height / picture.height)
        size = (max(width, round(picture.width * scale)), max(height, round(picture.height * scale)))
        left, top = (size[0] - width) // 2, (size[1] - height) // 2
        cut = picture.resize(size, 3).crop((left, top, left + width, top + height))  # 3: bicubic
        return (np.asarray(cut, dtype=np.float32).transpose(2, 0, 1) / 255.0 - 0.5) / 0.5

    note = (
        f"The model came without an image processor: pictures were resized and cut to {width} x {height} and scaled to "
        "[-1, 1] (mean and deviation 0.5)."
    )
    return Images(pixels, note)


def sides(size: Any) -> tuple[int, int]:
    """Height and width of a size that a configuration gives as one number or as two.

    >>> sides(224), sides([16, 8])
    ((224, 224), (16, 8))
    """
    return (int(size), int(size)) if np.ndim(size) == 0 else (int(size[0]), int(size[1]))


def picture_size(config: Any) -> tuple[int, int]:
    """Height and width of the pictures that a model takes; 224 where its configuration does not say."""
    return sides(getattr(config, "image_size", None) or 224)


def patches(config: Any, pixels: np.ndarray) -> tuple[int, int]:
    """Rows and columns of patches that a picture (channels, height, width) is cut into; 0 where that is not stated."""
    stated = getattr(config, "patch_size", None)
    if stated is None:
        return 0, 0
    high, wide = sides(stated)
    return pixels.shape[1] // high, pixels.shape[2] // wide


def names(rows: int, columns: int, n: int) -> list[str]:
    """Names of n tokens: those before the patches, then the patches by row and column; numbers for other tokens.

    >>> names(1, 2, 4), names(0, 0, 2)
    (['[CLS]', '[+1]', '0,0', '0,1'], ['0', '1'])
    """
    if not 0 < rows * columns <= n:
        return [str(i) for i in range(n)]
    first = max(n - rows * columns, 0)
    places = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    return ["[CLS]" if i == 0 else f"[+{i}]" for i in range(first)] + places[: n - first]


def _opened(item: Any) -> "Image":
    from PIL import Image, ImageOps

    try:
        if hasattr(item, "getbands"):
            picture: Image.Image = item
        elif isinstance(item, (str, Path)):
            with Image.open(item) as file:
                picture = ImageOps.exif_transpose(file)
        else:
            picture = Image.fromarray(np.asarray(item))
        return picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        told = f"{str(item)[:80]!r}" if isinstance(item, (str, Path)) else "a picture"
        raise InputError(f"This model reads pictures, and {told} cannot be opened as one.") from error
