"""`mapInArrow` as we use it: Arrow in, Arrow out, and no pandas needed.

PySpark's public `DataFrame.mapInArrow` asks for pandas although this path never touches it; this
builds the same plan from the same parts. Only the adapter: operators know nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(df: DataFrame, func: ArrowMap, schema: StructType | str) -> DataFrame:
    """Each partition's batches through `func`, whose batches have `schema`."""
    returns: DataType | str = schema
    mapper: Any = UserDefinedFunction(
        func, returnType=returns, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = mapper(*[df[_quoted(name)] for name in df.columns])
    inner: Any = df
    return DataFrame(inner._jdf.mapInArrow(column._jc, False, None), df.sparkSession)


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
