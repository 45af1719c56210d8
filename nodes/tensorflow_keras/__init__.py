"""Training and prediction with TensorFlow and Keras: the only folder of the nodes' models that imports them.

    framework       what `nodes.training` and `nodes.prediction` get to see; imports TensorFlow when it is used
    runtime         TensorFlow quiet, repeatable, within its cores; devices, and workers that share each batch
    learner         one step and one evaluation, on one replica or several
    models          the ResNet, a person's own network, and the ends that all models have
    batches         a loader's batches as tensors, and as a `tf.data.Dataset`
    predictor       a saved model: volumes in, scores out
    mlflow_model    the same model in MLflow's format
    loopback        keeps TensorFlow's port to this machine

Another framework is a folder like this one, and a row in `nodes.training.learner.FRAMEWORKS`.
"""
