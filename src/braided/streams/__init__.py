"""Where records come from: data sets, files, standard input; and how they are shuffled, masked and shortened."""

from braided.streams.base import ArrayStream, Batch, Peeked, Stream, read_whole
from braided.streams.masks import MASKS, Masked
from braided.streams.transform import Limited, shuffled

__all__ = ["MASKS", "ArrayStream", "Batch", "Limited", "Masked", "Peeked", "Stream", "read_whole", "shuffled"]
