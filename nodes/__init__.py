"""Voxelflow's own node types, one module each. A new one needs a line here and nothing else."""

BUILT_IN = (
    "nodes.volume_folder",
    "nodes.synthetic_volumes",
    "nodes.numpy_to_parquet",
    "nodes.parquet_to_delta",
    "nodes.optimize_delta",
    "nodes.split_dataset",
    "nodes.inspect_dataset",
    "nodes.train_resnet3d",
    "nodes.profile_training",
    "nodes.batch_predict",
    "nodes.evaluate_model",
    "nodes.register_model",
)
