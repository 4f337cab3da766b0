"""Queries of Spark's over keyed streams, in a process that can be killed.

python spark_script.py FOLDER run|finish
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from spark_stream import ALONE, CLASSES, VALUES, alone, digests

#: Absent where pytest looks into this file for tests.
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")


def session() -> Any:
    from pyspark.sql import SparkSession

    from braided.spark import prepare

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = builder.config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.local.dir", str(FOLDER / "local"))
    spark = prepare(builder.config("spark.sql.session.timeZone", "Europe/Berlin")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def models() -> dict[str, dict[str, Any]]:
    return {"classes": {"model": FOLDER / "fleet.braided"}, "values": {"model": alone(), **ALONE}}


def start(spark: Any, run: str, files: int) -> list[Any]:
    """Both queries, with so many files to a micro-batch."""
    from braided.spark import fleet_stream

    schema = spark.read.parquet(str(FOLDER / "rows")).schema
    queries = []
    for name, told in (("classes", CLASSES), ("values", VALUES)):
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(FOLDER / "rows"))
        rows = rows if name == "values" else rows.drop("station", "colour", "value", "day", "number")
        answers = fleet_stream(rows, **models()[name], **told)
        writer = answers.writeStream.format("parquet").option("path", str(FOLDER / run / name))
        writer = writer.option("checkpointLocation", str(FOLDER / f"{run}-checkpoint" / name))
        queries.append(writer.trigger(availableNow=True).start())
    return queries


def found(spark: Any, run: str) -> dict[str, Any]:
    """Of each query its answers, the types of their columns, and a digest of each key's state."""
    from braided.spark import read_fleet

    result = {}
    for name in ("classes", "values"):
        answers = spark.read.parquet(str(FOLDER / run / name))
        order = "time" if name == "classes" else "number"
        kinds = dict(answers.dtypes)
        if order == "time":
            answers = answers.withColumn("time", answers["time"].cast("double"))
        rows = [row.asDict() for row in answers.orderBy(order).collect()]
        fleet = read_fleet(spark, FOLDER / f"{run}-checkpoint" / name, **models()[name])
        for row in rows:
            if "probabilities" in row:
                row["probabilities"] = {str(label): share for label, share in row["probabilities"].items()}
        result[name] = {"rows": rows, "kinds": kinds, "states": digests(fleet)}
    return result


def main() -> None:
    spark = session()
    for query in start(spark, "killed", files=1):
        query.awaitTermination()
    if sys.argv[2] == "finish":
        for left in ("whole", "whole-checkpoint"):
            shutil.rmtree(FOLDER / left, ignore_errors=True)
        for query in start(spark, "whole", files=100):
            query.awaitTermination()
        seen = {run: found(spark, run) for run in ("killed", "whole")}
        (FOLDER / "seen.part").write_text(json.dumps(seen, default=str))
        (FOLDER / "seen.part").rename(FOLDER / "seen.json")


if __name__ == "__main__":
    main()
