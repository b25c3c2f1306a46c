"""Chat templates: a plain one for base models, and system messages for templates without the role."""

import pytest
from tiny_models import byte_tokenizer, sample_texts

from medjudge.models.chat import PLAIN_TEMPLATE, is_plain, with_chat_template

GEMMA_LIKE = (
    "{{ bos_token or '' }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n{{ message['content'] }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
SILENT = GEMMA_LIKE.replace("raise_exception('System role not supported')", "''").replace(
    "{% for message in messages %}", "{% for message in messages if message['role'] != 'system' %}"
)
MESSAGES = [
    {"role": "system", "content": "Judge."},
    {"role": "user", "content": "One"},
    {"role": "assistant", "content": "Two"},
    {"role": "user", "content": "Three"},
]


@pytest.fixture
def tokenizer():
    return byte_tokenizer(sample_texts(), 600)


def rendered(tokenizer, messages=MESSAGES) -> str:
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def test_a_template_that_takes_a_system_message_stays_and_a_model_without_one_gets_the_plain_one(tokenizer) -> None:
    before = tokenizer.chat_template
    assert with_chat_template(tokenizer).chat_template == before
    assert not is_plain(tokenizer)
    tokenizer.chat_template, tokenizer.bos_token = None, "<|endoftext|>"
    assert with_chat_template(tokenizer).chat_template == PLAIN_TEMPLATE
    assert is_plain(tokenizer)
    turns = "### system\nJudge.\n\n### user\nOne\n\n### assistant\nTwo\n\n### user\nThree\n\n### assistant\n"
    assert rendered(tokenizer) == f"<|endoftext|>{turns}"


@pytest.mark.parametrize("template", [GEMMA_LIKE, SILENT], ids=["refuses the role", "leaves it out"])
def test_a_system_message_is_folded_into_the_first_turn(tokenizer, template: str) -> None:
    tokenizer.chat_template = template
    with_chat_template(tokenizer)
    assert rendered(tokenizer).startswith(
        "<start_of_turn>user\nJudge.\n\nOne<end_of_turn>\n<start_of_turn>assistant\nTwo"
    )
    assert rendered(tokenizer, MESSAGES[1:]).startswith("<start_of_turn>user\nOne<end_of_turn>")
    folded = tokenizer.chat_template
    assert with_chat_template(tokenizer).chat_template == folded  # it is not folded twice
