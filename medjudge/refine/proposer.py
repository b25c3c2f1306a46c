"""Writers of better texts: a model behind an API, or a local one."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from medjudge.answer.conversation import Request
from medjudge.answer.transformers_engine import TransformersEngine
from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.spending import Spending
from medjudge.errors import InputError, notify
from medjudge.files import first_problem, model_from_json, read_text
from medjudge.refine.proposals import Outcome, Prompt, Proposal, proposal, read_reply
from medjudge.screen import progress_bar
from medjudge.store import Run, repair_last_line

_MAX_TOKENS, _THOUGHT_TOKENS = 2048, 8192


class ApiProposer:
    """Chat model behind an OpenAI-compatible API that proposes texts, at temperature 0; `name` goes with the proposals.

    Raises:
        InputError: There is no key in the environment, or a cost limit without a price.
    """

    def __init__(self, model: str, server: Server = Server(), spending: Spending | None = None, seed: int = 0) -> None:
        self.name = f"openai:{model}"
        self.client = ChatClient(f"--proposer {self.name}", model, server, spending)
        self.seed = seed

    def propose(self, prompts: Sequence[Prompt]) -> Iterator[Proposal]:
        """Yield one proposal for each prompt, in any order, as soon as it is made."""
        with progress_bar(len(prompts), f"proposing ({self.name})", "text") as bar:
            for made in self.client.gather(prompts, self._propose):
                yield made
                bar.update()

    async def _propose(self, prompt: Prompt) -> Proposal:
        messages = [{"role": "user", "content": prompt.text}]
        request = ChatRequest(messages, self.seed, _MAX_TOKENS, more_tokens=_THOUGHT_TOKENS)
        try:
            reply = await self.client.ask(request)
        except RequestError as error:
            outcome = Outcome.UNREADABLE if error.lasting else Outcome.FAILED
            return proposal(prompt, self.name, outcome, problem=f"the request failed: {error}")
        if reply.broke_off and not reply.refusal:
            return proposal(prompt, self.name, Outcome.FAILED, problem=f"the reply broke off: {reply.finish_reason}")
        if reply.text and not reply.refusal:
            return read_reply(prompt, self.name, reply.text)
        problem = f"the server refused: {reply.refusal[:200]}" if reply.refusal else "the server returned no text"
        return proposal(prompt, self.name, Outcome.UNREADABLE, problem=problem)


class LocalProposer:
    """Chat model on this machine that proposes texts, decoded greedily.

    Raises:
        InputError: The model is not available.
    """

    def __init__(self, model: str, device: str = "auto", max_tokens: int = _MAX_TOKENS) -> None:
        self.engine = TransformersEngine(model, device=device, max_new_tokens=max_tokens, temperature=0)
        self.name = self.engine.name

    def propose(self, prompts: Sequence[Prompt]) -> Iterator[Proposal]:
        """As `ApiProposer.propose`."""
        requests = [Request([{"role": "user", "content": prompt.text}], 0) for prompt in prompts]
        for index, reply in self.engine.answer(requests):
            if reply.text:
                yield read_reply(prompts[index], self.name, reply.text)
            else:
                problem = f"no text: {reply.finish_reason}"
                yield proposal(prompts[index], self.name, Outcome.UNREADABLE, problem=problem)


Proposer = ApiProposer | LocalProposer


def make_proposals(
    run: Run, prompts: Sequence[Prompt], file: Path, open_proposer: Callable[[], Proposer]
) -> list[tuple[Prompt, Proposal]]:
    """Send the prompts that have no proposal in the file yet, or a failed one; each is kept before the next is made.

    The run is locked. `open_proposer` is called only if there is something to propose.

    Raises:
        InputError: The file holds proposals by another proposer, or cannot be read.
    """
    existing = {
        proposal.prompt_sha256: proposal for proposal in _read_proposals(file) if proposal.outcome is not Outcome.FAILED
    }
    waiting = [prompt for prompt in prompts if prompt.sha256 not in existing]
    if waiting:
        proposer = open_proposer()
        others = sorted({proposal.by for proposal in existing.values()} - {proposer.name})
        if others:
            raise InputError(
                f"{file}: holds proposals by {', '.join(others)}; continue with that proposer or choose another --out"
            )
        if existing:
            notify(f"{len(existing)} proposals exist; {len(waiting)} to go")
        for proposal in proposer.propose(waiting):
            existing[proposal.prompt_sha256] = proposal
            run.append(file, proposal.model_dump_json())
    return [(prompt, existing[prompt.sha256]) for prompt in prompts]


def _read_proposals(file: Path) -> list[Proposal]:
    if not file.exists():
        return []
    repair_last_line(file)
    try:
        return [model_from_json(Proposal, line) for line in read_text(file).split("\n") if line]
    except ValueError as error:
        raise InputError(f"{file}: not a proposal ({first_problem(error)}); remove the line and run again") from None
