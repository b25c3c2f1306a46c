"""Answers with a chat model at an OpenAI-compatible server: OpenAI, vLLM, transformers serve, and others."""

from collections.abc import Iterator, Sequence

from medjudge.answer.conversation import BROKE_OFF, Reply, Request
from medjudge.answer.thinking import NO_ANSWER, ThinkingOptions, split_thought
from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply
from medjudge.chat_api.spending import Spending
from medjudge.errors import UnfinishedError, notify
from medjudge.screen import progress_bar


class OpenAIEngine:
    """A chat model at a server.

    Args:
        model: The model's name at the server, and in the records.
        temperature: The sampling temperature; 0 for greedy decoding.
        thinking: Whether the model thinks before it answers. Its tokens are added with mode `on`, and else once a
            thought has taken all tokens of an answer.

    Raises:
        InputError: There is no key in the environment, or a limit on costs and no price.
    """

    def __init__(
        self,
        model: str,
        server: Server = Server(),
        spending: Spending | None = None,
        max_new_tokens: int = 1024,
        temperature: float = 0.7,
        thinking: ThinkingOptions = ThinkingOptions(),
    ) -> None:
        self.name = model
        self.client = ChatClient(f"--model openai:{model}", model, server, spending)
        self.max_new_tokens = max_new_tokens + (thinking.tokens if thinking.mode == "on" else 0)
        self.more_tokens = 0 if thinking.mode == "on" else thinking.tokens
        self.thinking = thinking.enabled
        self.temperature = temperature

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """As `Engine.answer`. A failed request yields no reply and ends the work once all others are done.

        Raises:
            UnfinishedError: Requests failed. Later turns of their conversations must not be asked without them.
        """
        failed: list[RequestError] = []
        broken = 0

        async def ask(index: int) -> tuple[int, ChatReply | RequestError]:
            request = requests[index]
            # Some servers accept 32-bit seeds only.
            chat = ChatRequest(request.messages, request.seed % 2**31, self.max_new_tokens, self.temperature)
            chat = chat._replace(thinking=self.thinking, more_tokens=self.more_tokens)
            try:
                reply = await self.client.ask(chat)
            except RequestError as error:
                return index, error
            if reply.broke_off and not reply.text:
                return index, RequestError(f"the reply broke off: {reply.finish_reason}")
            return index, reply

        with progress_bar(len(requests), f"answering ({self.name})", "answer") as bar:
            for index, reply in self.client.gather(range(len(requests)), ask):
                if isinstance(reply, ChatReply):
                    broken += reply.broke_off
                    yield index, _answer(reply)
                elif reply.lasting:
                    yield index, Reply("", str(reply))
                else:
                    failed.append(reply)
                bar.update()
        if broken:
            notify(f"--model openai:{self.name}: {broken} answers broke off at the server and are marked as cut off")
        if failed:
            raise UnfinishedError(
                f"--model openai:{self.name}: {len(failed)} of {len(requests)} requests failed (such as: {failed[0]}); "
                "all other answers are kept, and the same command sends these again"
            )


def _answer(reply: ChatReply) -> Reply:
    thinking, text = split_thought(reply.text or "")
    thinking = reply.thinking or thinking
    if thinking is not None and not text and not reply.refusal:
        return Reply("", NO_ANSWER, reply.tokens_in, reply.tokens_out, thinking)
    reason = f"{BROKE_OFF}{reply.finish_reason}" if reply.broke_off else reply.finish_reason
    if reply.refusal and not text:
        reason = f"refused: {reply.refusal[:200]}"
    return Reply(text, reason, reply.tokens_in, reply.tokens_out, thinking or None)
