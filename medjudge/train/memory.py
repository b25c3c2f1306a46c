"""How much memory a training step of a generative judge takes, by arithmetic: docs/one-gpu.md explains the terms."""

from typing import NamedTuple

import torch
from peft import get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig
from trl import ModelConfig

from medjudge.models.quantization import Quantization
from medjudge.train.lora import lora_config

_LLAMA_LIKE = {"llama", "mistral", "qwen2", "qwen3"}
"""Model types whose layers keep what `Shape.layer_bytes` counts for the backward pass."""
_NF4_BYTES = 0.5 + 4 / 64
_NESTED_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
_BACKWARD = 2.0
"""Tensors of the width of the feed-forward network that the backward pass of a layer holds at once."""


class Shape(NamedTuple):
    """The shape of a causal language model, as far as memory and time depend on it.

    Attributes:
        query: The width of all heads together, `key` that of all key-value heads.
        head_norms: Whether queries and keys are normalised by head (Qwen3).
        parameters: All weights, `linear` those of the layers that are quantised, `largest` those of the largest one.
        adapter: The weights of the adapter.
    """

    layers: int
    hidden: int
    inner: int
    query: int
    key: int
    vocabulary: int
    head_norms: bool
    parameters: int
    linear: int
    largest: int
    adapter: int
    projections: int
    rank: int

    def layer_bytes(self, batch: "BatchSize", number: int, dropout: bool) -> float:
        """What a layer keeps for its backward pass.

        Args:
            number: Bytes of a number in the format of the matrix products.
            dropout: Whether each input of the adapter is dropped out, and therefore kept once for each projection.
        """
        per_token = (
            4 * 2 * self.hidden  # the inputs of both norms, in float32
            + number * 2 * self.hidden  # the outputs of both norms, which the adapter reads
            + number * (2 * self.query + 2 * (self.query if batch.masked else self.key))  # attention: q, k, v, output
            + (4 * (self.query + self.key) if self.head_norms else 0)
            + number * 4 * self.inner  # gate, its activation, up, their product
            + number * self.projections / self.layers * self.rank
        )
        if dropout:
            # A mask of a byte and the dropped-out input, for 3 inputs of the first norm, 2 of the second and 2 others.
            per_token += (number + 1) * (5 * self.hidden + self.query + self.inner)
        return batch.tokens * per_token + (number * batch.mask_entries if batch.masked else 0)


class BatchSize(NamedTuple):
    """The largest batch that one forward pass gets.

    Attributes:
        rows: Sequences, each of `length` tokens with padding.
        lines: The training lines in it.
        masked: Whether its attention needs a mask: rows are padded or hold several lines.
        positions: Positions of a row whose logits are computed, `words` those of all lines that have a language loss.
    """

    rows: int
    length: int
    lines: int
    masked: bool
    positions: int
    words: int

    @property
    def tokens(self) -> int:
        return self.rows * self.length

    @property
    def mask_entries(self) -> int:
        return self.rows * self.length**2


class StepMemory(NamedTuple):
    """Bytes that a training step takes at its peak."""

    weights: float
    adapter: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        return sum(self)


def shape_of(config: PretrainedConfig, options: ModelConfig) -> Shape | None:
    """The shape of a model with the adapter of the options, from its config alone; None for other kinds of models."""
    if config.model_type not in _LLAMA_LIKE:
        return None
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        head = model.get_output_embeddings()
        linear = [module for module in model.modules() if isinstance(module, nn.Linear) and module is not head]
        sizes = [module.weight.numel() for module in linear]
        parameters = sum(parameter.numel() for parameter in model.parameters())
        adapted = get_peft_model(model, lora_config(options, "CAUSAL_LM"))
    trained = [parameter for name, parameter in adapted.named_parameters() if parameter.requires_grad]
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Shape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        inner=config.intermediate_size,
        query=heads * width,
        key=config.num_key_value_heads * width,
        vocabulary=config.vocab_size,
        head_norms=config.model_type == "qwen3",
        parameters=parameters,
        linear=sum(sizes),
        largest=max(sizes),
        adapter=sum(parameter.numel() for parameter in trained),
        projections=sum(parameter.shape[0] == options.lora_r for parameter in trained),
        rank=options.lora_r,
    )


def step_memory(
    shape: Shape, batch: BatchSize, options: ModelConfig, quantization: Quantization | None, autocast: bool, again: bool
) -> StepMemory:
    """The memory of a training step.

    Args:
        batch: The largest batch.
        options: Format of the weights, and dropout of the adapter.
        autocast: Whether matrix products are in bfloat16 whatever the format of the weights.
        again: Gradient checkpointing: a layer keeps its input only, and runs again in the backward pass.
    """
    stored = 4 if options.dtype in (None, "float32") else 2
    number = 2 if autocast or stored == 2 else 4
    weights = float(stored * shape.parameters)
    trained = 4  # bytes of a weight of the adapter; its gradient and two moments take as many each
    if quantization is not None:
        each = 1.0 if quantization.bits == 8 else _NESTED_BYTES if quantization.nested else _NF4_BYTES
        weights += shape.linear * (each - stored) + number * shape.largest  # of one layer, in full while it is used
        trained = 2
    copies = number if autocast and trained != number else 0  # of the adapter, which autocast keeps for a step
    adapter = float(shape.adapter * (4 * trained + copies))
    layer = shape.layer_bytes(batch, number, options.lora_dropout > 0)
    backward = _BACKWARD * number * batch.tokens * shape.inner
    inputs = number * batch.tokens * shape.hidden
    last_norm = (4 + number) * batch.tokens * shape.hidden
    layers = shape.layers * inputs + layer if again else shape.layers * layer
    if autocast and stored == 4 and quantization is None:
        layers += number * shape.linear / (shape.layers if again else 1)  # the weights, cast for the backward pass
    mask = batch.mask_entries if batch.masked else 0  # of truth values; layers keep it as numbers
    # Logits as computed, of the words alone, in float32, their log-softmax and its gradient; the latter also of scores.
    head = shape.vocabulary * (
        number * batch.rows * batch.positions + (2 * number + 8) * batch.words + (number + 8) * batch.lines
    )
    return StepMemory(weights, adapter, layers + backward + last_norm + mask, float(head))
