"""Judge folders and models of two layers, built without training."""

import json
from pathlib import Path

import numpy as np
import torch
from gguf import MODEL_ARCH, GGUFWriter, LlamaFileType, TokenType, get_tensor_name_map
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from eval.lib.tiny_models import build_tiny_encoder, byte_tokenizer, sample_texts
from medjudge.benchmark.sample import sample_folder
from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard
from medjudge.judge.ordinal import OrdinalModel
from medjudge.judge.protocol import assignments
from medjudge.judge.similarity import CutPoints, SentenceEncoder, cosines_to_reference
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.store import Run


def build_ordinal_judge(folder: Path, base: Path, checklists: float = 0.0) -> Path:
    """An ordinal judge with a LoRA adapter that changes nothing; its scores come from cosines.

    Args:
        checklists: The weight of checklists.
    """
    body = load_encoder(str(base))
    config = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["query", "value"])
    model = OrdinalModel(get_peft_model(body, config), body.config.hidden_size)
    model.start_from(CutPoints(4.0, (-6.0, -5.0, -4.0, -3.0)), torch.tensor([1.0, 1.0, checklists]))
    model.body.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    model.save_head(folder)
    JudgeCard(kind="ordinal", base_model=str(base), max_length=128).write(folder)
    return folder


def build_tiny_similarity(folder: Path) -> Path:
    """Writes a similarity judge that costs next to nothing; it gives each level to a fifth of the sample's answers."""
    base = str(build_tiny_encoder(folder / "base", window=256))
    encoder = SentenceEncoder(load_encoder(base).eval(), load_tokenizer(base), 256)
    work = assignments(Run(sample_folder()).questions(), Run(sample_folder()).answers())
    cosines, _ = cosines_to_reference(encoder, work)
    slope = 3 / cosines.std()
    low, second, third, high = slope * np.quantile(cosines, [0.2, 0.4, 0.6, 0.8])
    card = JudgeCard(
        kind="similarity",
        base_model="tiny-encoder",
        max_length=encoder.max_length,
        slope=slope,
        cuts=(low, second, third, high),
    )
    write_readme(folder, card)
    card.write(folder)
    return folder


def build_tiny_gguf(path: Path) -> Path:
    """Writes a GGUF file of a Qwen2 of two layers with random weights, a byte-level tokenizer and no chat template."""
    tokenizer = byte_tokenizer(sample_texts(), 600)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=2, max_position_embeddings=4096, **sizes)
    writer = GGUFWriter(path, "qwen2")
    numbers = {"context_length": 4096, "embedding_length": 64, "feed_forward_length": 128, "block_count": 2}
    numbers |= {"head_count": 4, "head_count_kv": 2, "rope_freq_base": 10_000.0}
    for name, number in {**numbers, "layer_norm_rms_eps": config.rms_norm_eps}.items():
        getattr(writer, f"add_{name}")(number)
    writer.add_file_type(LlamaFileType.ALL_F32)
    words = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    vocabulary = sorted(words["vocab"], key=words["vocab"].get)
    control, normal = TokenType.CONTROL, TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([control if word.startswith("<|") else normal for word in vocabulary])
    writer.add_token_merges([" ".join(pair) for pair in words["merges"]])
    writer.add_bos_token_id(tokenizer.pad_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    names = get_tensor_name_map(MODEL_ARCH.QWEN2, 2)
    for name, tensor in Qwen2ForCausalLM(config).state_dict().items():
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
