"""The file of a sweep that is a dataset, and the record beside it."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rigidblocks.extras import module_of

if TYPE_CHECKING:
    import xarray

_NEEDS = {".nc": ("xarray", "scipy"), ".zarr": ("xarray", "zarr")}
KINDS = (".csv", *_NEEDS)


def record_of(path: Path) -> Path:
    """The .csv file that has the runs of a sweep while they come: the one that is asked for, or
    `runs.nc.csv` beside a dataset `runs.nc`.

    Raises ValueError for another kind of file and for a dataset without its record, which is of
    something else, and ImportError without the packages that write it.
    """
    if path.suffix not in KINDS:
        raise ValueError(f"the runs of a sweep are saved as {', '.join(KINDS)}, not as '{path}'")
    if path.suffix == ".csv":
        return path
    for name in _NEEDS[path.suffix]:
        module_of("dataset", name, f"'{path}'")
    record = path.with_name(f"{path.name}.csv")
    if path.exists() and not record.exists():
        raise ValueError(
            f"'{path}' is there, and not of this sweep, whose record '{record.name}' would be "
            "beside it: give another name, or remove it"
        )
    return record


def save_dataset(dataset: "xarray.Dataset", path: Path) -> None:
    """Writes a dataset as netCDF (.nc) or Zarr (.zarr), whole or not at all.

    Raises OSError with the name of the file where the disk does not take it.
    """
    part = path.with_name(f"{path.name}.part")
    _remove(part)
    try:
        if path.suffix == ".nc":
            dataset.to_netcdf(part, engine="scipy")
        else:
            dataset.to_zarr(part, mode="w", zarr_format=2, consolidated=True)
        if path.is_dir():
            shutil.rmtree(path)
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    """Takes away a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
