"""Builds tiny models with random weights from configs, for tests and engineering runs on machines without a model hub.

    python eval/lib/tiny_models.py OUT

writes OUT/tiny-lm (a Qwen3 of two layers with a chat template) and OUT/tiny-encoder (a BERT of two layers). Their
tokenizers are trained on the bundled sample, English and Chinese. What they say means nothing.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from medjudge.benchmark.sample import sample_folder
from medjudge.judge.folder import JudgeCard
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.records import Answer, Question
from medjudge.rubrics.render import prompt_hashes
from medjudge.store import read_records

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tiny_lm(folder: Path, window: int = 32_768, seed: int = 0) -> Path:
    """Writes a causal language model of about 0.4 million parameters that knows every byte."""
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": window}
    return write_lm(folder, byte_tokenizer(sample_texts(), 4000), seed, initializer_range=0.1, **shape)


def write_lm(folder: Path, tokenizer: PreTrainedTokenizerFast, seed: int = 0, **shape: Any) -> Path:
    """Writes a Qwen3 of a shape with random weights, and its tokenizer."""
    torch.manual_seed(seed)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), **ends, **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def byte_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with single digits and a chat template, trained on texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE
    )


def build_tiny_encoder(folder: Path, window: int = 128, seed: int = 0, layers: int = 2) -> Path:
    """Writes a BERT of about 0.1 million parameters, with two layers."""
    tokenizer = _word_tokenizer(sample_texts(), 2000)
    marks = [(mark, tokenizer.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", marks)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    torch.manual_seed(seed)
    shape = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "num_hidden_layers": layers}
    config = BertConfig(vocab_size=len(wrapped), max_position_embeddings=window, **shape)
    BertModel(config).save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return folder


def _word_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """A WordPiece tokenizer that knows every character of some texts and their most frequent words.

    The library's own training breaks ties by chance, so that each run would give another vocabulary.
    """
    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words = Counter(word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    characters = {character for word in words for character in word}
    inside = {f"##{character}" for word in words for character in word[1:]}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    frequent = sorted(words, key=lambda word: (-words[word], word))
    pieces = list(dict.fromkeys([*special, *sorted(characters | inside), *frequent]))[:vocab_size]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.add_special_tokens(special)
    return tokenizer


def build_generative_judge(folder: Path, base: Path, spread: float = 0.05, **fields: object) -> Path:
    """A generative judge with a LoRA adapter that changes what the base says, by random numbers.

    Args:
        spread: The standard deviation of these numbers.
        fields: Fields of its card, and `use_dora` of its adapter.
    """
    torch.manual_seed(0)
    config = LoraConfig(
        task_type="CAUSAL_LM", r=4, target_modules="all-linear", use_dora=bool(fields.pop("use_dora", False))
    )
    model = get_peft_model(load_causal_lm(str(base)), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=spread)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    load_tokenizer(str(base)).save_pretrained(folder)
    values = {"max_length": 4096, "prompt_hashes": prompt_hashes("score-first"), **fields}
    JudgeCard.model_validate({"kind": "generative", "base_model": str(base), **values}).write(folder)
    return folder


def sample_texts() -> list[str]:
    """The texts of the bundled sample: questions with reference and checklist, and answers."""
    questions = read_records(sample_folder() / "questions.jsonl", Question)
    answers = read_records(sample_folder() / "answers.jsonl", Answer)
    return [f"{question.prompt} {question.reference} {question.checklist}" for question in questions] + [
        answer.text for answer in answers
    ]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/lib/tiny_models.py OUT")
    print(build_tiny_lm(Path(sys.argv[1]) / "tiny-lm"))
    print(build_tiny_encoder(Path(sys.argv[1]) / "tiny-encoder"))
