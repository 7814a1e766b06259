"""Files on local disks and object stores: reading through pyarrow, and the atomic writes that commits rest on."""

from penstock.storage._azure import AzureStorage
from penstock.storage._contract import ABANDONED_AFTER_S, Storage
from penstock.storage._gcs import GcsStorage
from penstock.storage._hdfs import HdfsStorage
from penstock.storage._local import LocalStorage
from penstock.storage._memory import MemoryStorage
from penstock.storage._names import path_below
from penstock.storage._open import (
    STORAGE_OPTIONS,
    check_address,
    has_scheme,
    open_storage,
    storage_options,
    storage_options_of_one,
)
from penstock.storage._packages import missing_package
from penstock.storage._ranged_file import RangedFile
from penstock.storage._s3 import S3Storage, translated

__all__ = [
    "ABANDONED_AFTER_S",
    "STORAGE_OPTIONS",
    "AzureStorage",
    "GcsStorage",
    "HdfsStorage",
    "LocalStorage",
    "MemoryStorage",
    "RangedFile",
    "S3Storage",
    "Storage",
    "check_address",
    "has_scheme",
    "missing_package",
    "open_storage",
    "path_below",
    "storage_options",
    "storage_options_of_one",
    "translated",
]
