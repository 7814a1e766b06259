"""A container engine and the images of servers, on a machine that has neither Docker nor a registry of images.

Where Docker (or what ``DOCKER_HOST`` names) answers, nothing of this is used: images are pulled, as everywhere.
"""

from containers._engine import NoEngine, container_engine
from containers._images import build_images

__all__ = ["NoEngine", "build_images", "container_engine"]
