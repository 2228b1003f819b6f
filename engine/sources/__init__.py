"""Where rows come from: files read by Spark or natively, and the generator.

`files` opens streams in Spark, `native` reads Parquet past the JVM, `generator` makes rows up
(`knobs` its options, `schedule` its keys, `market` its demo data, `generator_stream` its Spark side).
Nothing is imported here, so that reading a query file needs no Spark.
"""
