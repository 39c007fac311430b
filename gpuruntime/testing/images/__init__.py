"""Container images from files, without a builder, and a registry on loopback that serves them to nodes.

`ImageStore(directory).add("team/server:1", {"/app/server.py": "..."}, base="python", command=["python", ...])` makes an
image in milliseconds. `registry` serves a directory of images.
"""

from gpuruntime.testing.images.layers import Directory, File, Files, Link, tree
from gpuruntime.testing.images.store import ImageStore

__all__ = ["Directory", "File", "Files", "ImageStore", "Link", "tree"]
