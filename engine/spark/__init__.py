"""Apache Spark as a backend: the session, what travels to the executors, and lists of work spread over them."""
