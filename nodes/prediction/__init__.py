"""What a trained model says of volumes: of a whole table (`BatchPredict`), or of a few files (`voxelflow predict`).

session             the work of BatchPredict: plan, predict part by part, commit
inputs              what a model's folder says without its framework; the volumes to predict, labelled or not
parts               parts of the rows: each is read and predicted, written, and recorded
predictions_table   the Delta table: columns, the commit, reading it
table_folder        in which folder the table lies, and which takes the place of a damaged one
part_process        the same parts in a process of its own, for Spark's executors
unlike              volumes whose values are unlike those of the training
few_files           `.npy` files from the command line
"""
