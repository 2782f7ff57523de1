"""What `pb.explain` asks of TensorFlow: one run of a function, op by op, forward and backward."""

from pullback.engines.tensorflow.explaining.record import record as record
