"""Renders the judge's prompt. The answer under test is data in it: fenced, with control tokens taken apart."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from typing import Literal, NamedTuple, get_args

from jinja2 import Environment, StrictUndefined

from medjudge.languages.texts import PACKAGED, Languages, languages_of
from medjudge.records import Question
from medjudge.scheme import LLMEVAL_MED, Scheme

Style = Literal["score-first", "reason-first", "brief"]
"""The style of a judge's prompt: the score first or last, after the whole rubric, or the score after a few lines, for a
judge that learned the levels from scores."""
BRIEF_FRAME = "judge_brief_frame.md"
_ANGLED = (
    r"s|bos|eos|pad|unk|mask(?::\d+)?|sop|eop|eoh|eoa|cls|sep|bos_token|eos_token|beginning_of_sentence|end_of_sentence"
    r"|start_of_turn|end_of_turn|start_of_image|end_of_image|image_soft_token|image|video|audio"
    r"|think|thinking|tools?|tool_calls?|tool_response|function_calls?|seed:[a-z_:]{1,30}"
    r"|unused\d{1,6}|reserved_\d{1,6}|tokens_unused_\d{1,6}|special_\d{1,6}|extra_id_\d{1,6}"
)
"""Between `<` and `>`: Llama 2, Mistral, Gemma, GLM, InternLM, Baichuan, Qwen, MiniMax, Seed, Nemotron, T5."""
_BRACKETED = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|MODEL_SETTINGS|CALL_ID|ARGS|THINK"
    r"|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX"
    r"|[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS|EOT|\|[^\[\]|\n]{1,40}\|"
)
"""Between `[` and `]`: Mistral, GLM, Kimi, BERT; `[|user|]` of EXAONE."""
_CONTROL = re.compile(
    r"<\|[^<>\n]{0,40}>|<[^<>|\s]{1,40}\|>|<｜[^<>\n]{0,40}｜>"  # ChatML, Llama 3 and 4, Phi, Gemma 4; DeepSeek
    rf"|</?(?:{_ANGLED})>|\[/?(?:{_BRACKETED})\]|<</?SYS>>|\]~!?b[\[\]]|\[e~\[",
    re.IGNORECASE,
)
_FENCE = re.compile(r"<<<(?=\s*(?:ANSWER|END)\b)", re.IGNORECASE)


class JudgePrompt(NamedTuple):
    """The two messages that a judge reads; `system` is the same for a whole category and language."""

    system: str
    user: str

    @property
    def messages(self) -> list[dict[str, str]]:
        """The two as a chat."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]


def render(
    question: Question,
    earlier: Sequence[str],
    answer: str,
    style: Style,
    control_tokens: Iterable[str] = (),
    scheme: Scheme = LLMEVAL_MED,
) -> JudgePrompt:
    """Renders the prompt for one answer.

    Args:
        question: The question; its category and language choose the rubric.
        earlier: The user's earlier turns of the same conversation, oldest first.
        answer: The model's answer, any text.
        style: Whether the reply begins with the score or ends with it, and whether the rubric is in the prompt.
        control_tokens: Further special tokens of the judge's tokenizer to take apart in everything but the rubric.
        scheme: What the question belongs to; it holds the rubric.
    """
    title, levels = standard(question.category, question.language, scheme)
    languages = languages_of(scheme)
    system = frame(title, levels, question.language, style, languages)
    template = material(question.language, style, languages)
    return JudgePrompt(system.strip(), user_message(template, question, earlier, [answer], control_tokens))


def user_message(
    template: str,
    question: Question,
    earlier: Sequence[str],
    answers: Sequence[str],
    control_tokens: Iterable[str],
    items: Sequence[str] = (),
) -> str:
    """The user message of any task, in which no text can be read as control or end its fence.

    Args:
        template: In Jinja; it names one answer `answer` and its fence `code`, of two with `_a` and `_b` behind.
        answers: One answer, or two.
        items: What the answer is checked against.
    """
    tokens = list(control_tokens)

    def plain(text: str) -> str:
        return neutralise(text, tokens)

    values: dict[str, object] = {}
    for ending, answer in zip(("",) if len(answers) == 1 else ("_a", "_b"), answers, strict=True):
        values |= {f"code{ending}": fence_code(answer), f"answer{ending}": plain(answer)}
    return filled(
        template,
        earlier=[plain(prompt) for prompt in earlier],
        question=plain(question.prompt),
        reference=plain(question.reference or ""),
        checklist=plain(question.checklist or ""),
        items=[one_line(item, tokens) for item in items],
        **values,
    )


def one_line(item: str, control_tokens: Iterable[str] = ()) -> str:
    """An item on one line, without what a chat model could read as control."""
    return " ".join(neutralise(item, control_tokens).split())


def fence_code(answer: str) -> str:
    """The code in both marker lines around an answer; no answer can hold the hash of itself and so end its fence."""
    return sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def neutralise(text: str, control_tokens: Iterable[str] = ()) -> str:
    """Takes apart what a chat model could read as control: special tokens and fence markers.

    A space after the first character keeps the text readable for the judge and the token unformed for its tokenizer.
    """
    text = _CONTROL.sub(lambda match: match[0][0] + " " + match[0][1:], text)
    text = _FENCE.sub("< < <", text)
    for token in control_tokens:
        if len(token) > 1 and token in text:
            text = text.replace(token, token[0] + " " + token[1:])
    return text


def prompt_hashes(style: Style, scheme: Scheme = LLMEVAL_MED) -> dict[str, str]:
    """The sha256 of each rubric of a scheme as rendered for a style, by `CATEGORY.language`."""
    hashes = {}
    languages = languages_of(scheme)
    for language in scheme.languages:
        user_template = material(language, style, languages)
        for category in scheme.category_ids:
            system = frame(*standard(category, language, scheme), language, style, languages)
            hashes[f"{category}.{language}"] = sha256((system + user_template).encode()).hexdigest()
    return hashes


def frame(title: str, levels: str, language: str, style: Style, languages: Languages = PACKAGED) -> str:
    """The system message of a rubric."""
    source = languages.text(language, BRIEF_FRAME if style == "brief" else "judge_frame.md")
    text: str = _template(source).render(title=title, standard=levels, style=style)
    return text


def filled(template: str, **values: object) -> str:
    """A template with its values, without the white space around it."""
    text: str = _template(template).render(**values)
    return text.strip()


def material(language: str, style: Style, languages: Languages = PACKAGED) -> str:
    """The Jinja template of the user message."""
    return languages.text(language, "judge_brief_material.md" if style == "brief" else "judge_material.md")


def styles_of(scheme: Scheme) -> list[Style]:
    """The styles that all languages of a scheme have prompts for; one that a scheme adds may lack the brief ones."""
    brief = set(scheme.languages) <= set(languages_of(scheme).codes(BRIEF_FRAME))
    return [style for style in get_args(Style) if brief or style != "brief"]


def standard(category: str, language: str, scheme: Scheme = LLMEVAL_MED) -> tuple[str, str]:
    """A rubric's title, its first line, and its five levels in words, one a line."""
    title, _, levels = scheme.rubrics[f"{category}.{language}"].partition("\n")
    return title.strip(), levels.strip()


@cache
def _template(source: str):  # type: ignore[no-untyped-def]
    # Jinja renders values as they are: a template inside an answer is text, never run. Autoescape is off, since the
    # reader is a language model and not a browser.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    return environment.from_string(source)
