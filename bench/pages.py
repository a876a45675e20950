# SPDX-License-Identifier: MIT
"""Page cache control for benchmarks that read cold files."""
import os


def drop(path):
    """Drops a file's pages from the cache; fsync first, since dirty pages stay."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
