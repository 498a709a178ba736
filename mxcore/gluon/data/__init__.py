"""INPUT: datasets, samplers and the data loader."""

from __future__ import annotations

from . import dataloader, dataset, sampler, vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, IntervalSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "Dataset",
    "SimpleDataset",
    "ArrayDataset",
    "Sampler",
    "SequentialSampler",
    "RandomSampler",
    "FilterSampler",
    "BatchSampler",
    "IntervalSampler",
    "DataLoader",
    "dataloader",
    "dataset",
    "sampler",
    "vision",
]
