"""What a Spark session needs before it can run fleets: Java, the state store, and a Python that has braided."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from braided.errors import BraidedError
from braided.extras import require

PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PYTHON = "PYSPARK_PYTHON"
#: Of each SparkContext the folder with what was sent: on a cluster, files of one name must be one file.
_FOLDERS: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def prepare(builder: Any) -> Any:
    """Give a session's builder what fleets need, before `getOrCreate`: RocksDB for state, and workers of this Python.

    Parameters
    ----------
    builder
        A `SparkSession.builder`, with whatever else it has been told.

    Returns
    -------
    The builder. The environment variable PYSPARK_PYTHON is set to this Python, unless it is set.
    """
    for module in ("pyspark", "pandas", "pyarrow", "google.protobuf"):
        require(module, "spark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise BraidedError("there is no Java, which Spark needs: install version 17 or later, or set JAVA_HOME")
    os.environ.setdefault(_PYTHON, sys.executable)
    return builder.config(PROVIDER_SETTING, ROCKSDB)


def check_session(spark: Any) -> None:
    """Refuse a session in which a fleet could not run."""
    provider = spark.conf.get(PROVIDER_SETTING, "")
    if not provider.endswith("RocksDBStateStoreProvider"):
        raise BraidedError(
            f"the state store is {provider.rpartition('.')[2] or 'not set'}, and fleets need RocksDB: make the session "
            f"with braided.spark.prepare, or set {PROVIDER_SETTING} to {ROCKSDB}"
        )
    context = getattr(spark, "_sc", None)
    if context is None:
        raise BraidedError(
            "the session is one of Spark Connect, which fleets cannot use: make it where the driver runs"
        )
    if not context.master.startswith("local"):
        return  # the machines of a cluster have a Python of their own
    python = shutil.which(context.pythonExec)
    if python is None or _environment(python) != _environment(sys.executable):
        raise BraidedError(
            f"Spark's workers would run {python or context.pythonExec}, and braided is installed for {sys.executable}: "
            f"make the session with braided.spark.prepare, or set {_PYTHON} to that before"
        )


def send_file(spark: Any, content: bytes) -> str:
    """Have bytes sent to the workers of a session; returns the name under which `SparkFiles` finds them there.

    They do not go with the code: Spark makes a broadcast of code beyond a megabyte, which its driver cannot read back
    where a query has state.
    """
    context = spark.sparkContext
    if context not in _FOLDERS:
        _FOLDERS[context] = tempfile.mkdtemp(prefix="braided-spark-")
        weakref.finalize(context, shutil.rmtree, _FOLDERS[context], ignore_errors=True)
    file = Path(_FOLDERS[context]) / f"{hashlib.sha256(content).hexdigest()}.braided"
    if not file.exists():
        file.write_bytes(content)
    context.addFile(str(file))
    return file.name


def _environment(python: str) -> Path:
    """The folder that a Python belongs to: `python` and `python3` of one environment are the same."""
    return Path(os.path.abspath(python)).parent
