"""Files on local disks and object stores: reading through pyarrow, and the atomic writes that commits rest on."""

from penstock.storage._storage import STORAGE_OPTIONS, LocalStorage, MemoryStorage, S3Storage, Storage, open_storage

__all__ = ["STORAGE_OPTIONS", "LocalStorage", "MemoryStorage", "S3Storage", "Storage", "open_storage"]
