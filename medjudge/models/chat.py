"""Chat templates of base models: a plain one where a model has none, and system messages where a template has no role.

The template becomes the tokenizer's own, so that it is saved with a judge and every engine renders the same prompts.
"""

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError

ROLE_MARK = "### "
"""The beginning of a turn of the plain template; a base model that goes on after its answer writes it next."""
PLAIN_TEMPLATE = (
    "{{- bos_token or '' -}}\n"
    "{%- for message in messages -%}\n"
    f"{{{{- '{ROLE_MARK}' + message['role'] + '\\n' + message['content'] + '\\n\\n' -}}}}\n"
    "{%- endfor -%}\n"
    f"{{%- if add_generation_prompt -%}}{{{{- '{ROLE_MARK}assistant\\n' -}}}}{{%- endif -%}}"
)
_FOLDED = """\
{%- if messages and messages[0]['role'] == 'system' -%}
{%- set first = {'role': 'user', 'content': messages[0]['content'] + '\\n\\n' + messages[1]['content']} -%}
{%- set messages = [first] + messages[2:] -%}
{%- endif -%}
"""
PLAIN_MARKS = tuple(f"{ROLE_MARK}{role}" for role in ("system", "user", "assistant"))
"""Texts that are refused in a prompt where the plain template is used."""


def with_chat_template(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Gives a tokenizer a template that takes a system message and the turns after it, unless its own does.

    A base model without a template gets `PLAIN_TEMPLATE`. Where a template has no system role (Gemma's, older
    Mistral's), or leaves it out, the system message is folded into the first turn of the user.

    Raises:
        InputError: Its template cannot be rendered.
    """
    if not tokenizer.chat_template:
        tokenizer.chat_template = PLAIN_TEMPLATE
    elif not _takes_a_system_message(tokenizer):
        tokenizer.chat_template = _FOLDED + str(tokenizer.chat_template)
        if not _takes_a_system_message(tokenizer):
            raise InputError(f"{tokenizer.name_or_path}: its chat template cannot be rendered; use another model")
    return tokenizer


def _takes_a_system_message(tokenizer: PreTrainedTokenizerBase) -> bool:
    messages = [{"role": "system", "content": "7f3a"}, {"role": "user", "content": "9c1d"}]
    try:
        return "7f3a" in str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except TemplateError:
        return False


def is_plain(tokenizer: PreTrainedTokenizerBase) -> bool:
    """True if a tokenizer has the plain template."""
    return tokenizer.chat_template == PLAIN_TEMPLATE
