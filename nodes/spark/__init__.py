"""The nodes' work on Spark: the same inner loops as embedded, spread over the executors; only the driver publishes."""
