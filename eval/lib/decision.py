"""A score-first judge as a decision model of transformers: `pipeline("decision", …)` reads it.

It renders `decision_template.jinja` in place of the tokenizer's chat template, and reads the labels of
`decision.json` after it.
"""

import re
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from medjudge.judge.generative import LABELS
from medjudge.judge.protocol import Assignment
from medjudge.languages.texts import languages_of
from medjudge.rubrics.render import Style, fence_code, frame, material, neutralise, standard
from medjudge.scheme import LLMEVAL_MED, Scheme

_LEVEL = re.compile(r"^- ([1-5])分?[:：](.+)$", re.MULTILINE)
_TEMPLATE = """\
{{%- set earlier, question, reference = state.earlier or [], state.question, state.reference -%}}
{{%- set checklist, answer, code = state.checklist, state.answer, state.code -%}}
{systems}
{users}
{{%- set messages = [
    {{"role": "system", "content": system | trim}}, {{"role": "user", "content": user | trim}}
] -%}}
{chat_template}"""


def write_decision_files(
    tokenizer: PreTrainedTokenizerBase,
    temperature: float,
    folder: Path,
    scheme: Scheme = LLMEVAL_MED,
    style: Style = "score-first",
) -> None:
    """Writes `decision.json` and `decision_template.jinja`, unless the pipeline cannot read the labels.

    Args:
        tokenizer: The judge's tokenizer, with a chat template.
        temperature: The temperature of the judge's card.
        folder: The judge folder.
        scheme: What the training questions belong to; the template holds its rubrics.
        style: The style that the judge was trained in.
    """
    from transformers.decision import DecisionConfig, label_token_ids

    try:
        label_token_ids(tokenizer, LABELS)
    except ValueError:
        return  # the tokenizer marks word boundaries in digit tokens, which the pipeline does not support
    languages = languages_of(scheme)
    rubrics = [(category, language) for category in scheme.category_ids for language in scheme.languages]
    systems = "".join(
        f'{{%- if state.category == "{category}" and state.language == "{language}" -%}}{{%- set system -%}}'
        f"{{% raw %}}{frame(*standard(category, language, scheme), language, style, languages)}{{% endraw %}}"
        "{%- endset -%}{%- endif -%}"
        for category, language in rubrics
    )
    users = "".join(
        f'{{%- if state.language == "{language}" -%}}{{%- set user -%}}\n{material(language, style, languages)}'
        "{%- endset -%}{%- endif -%}"
        for language in scheme.languages
    )
    template = _TEMPLATE.format(systems=systems, users=users, chat_template=tokenizer.chat_template)
    DecisionConfig(
        labels={"score": list(LABELS)}, temperature={"score": temperature}, chat_template=template
    ).save_pretrained(folder)


def decision_request(assignment: Assignment) -> dict[str, Any]:
    """An answer in the form that the decision pipeline accepts.

    The probabilities in the reply are those of the judge; level 1 is "0", as the pipeline counts from 0. Unlike the
    judge, the pipeline does not shorten answers that do not fit in the window, and it neutralises control tokens in a
    text in another way.
    """
    question, answer = assignment.question, assignment.answer.text
    state = {
        "category": question.category,
        "language": question.language,
        "earlier": [neutralise(prompt, ()) for prompt in assignment.earlier],
        "question": neutralise(question.prompt, ()),
        "reference": neutralise(question.reference or "", ()),
        "checklist": neutralise(question.checklist or "", ()),
        "answer": neutralise(answer, ()),
        # The fence around the answer: a text that does not occur in it.
        "code": fence_code(answer),
    }
    words = standard(question.category, question.language, assignment.scheme)[1]
    lowest_first = [text.strip() for _, text in sorted(_LEVEL.findall(words))]
    return {"state": state, "questions": {"score": {"type": "score", "criteria": lowest_first}}}
