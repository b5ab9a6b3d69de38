"""The text of every request as it comes, token by token."""

from collections.abc import Iterable

from engine.model.tokenizer import Tokenizer


class PieceWriter:
    """Writes into each step record of one run what text its tokens add: "pieces", [[request index, text], ...].

    "" for a token that completes no character, and for all from the end-of-text on. All pieces of a request together
    are what the result says that the model wrote. About 2 us a token, in the coordinator.
    """

    def __init__(self, tokenizer: Tokenizer, requests: Iterable[dict]) -> None:
        self._tokenizer = tokenizer
        self._left = [request["output_tokens"] for request in requests]
        self._streams = [tokenizer.pieces() for _ in self._left]

    def write(self, record: dict) -> None:
        """Other records than steps stay as they are."""
        if record["type"] == "step":
            record["pieces"] = [[index, self._piece(index, token)] for index, token, _ in record["tokens"]]

    def _piece(self, index: int, token: int) -> str:
        if self._left[index] <= 0:
            return ""
        self._left[index] -= 1
        stream = self._streams[index]
        if token in self._tokenizer.eos_ids:
            self._left[index] = 0
            return stream.rest()
        return stream.add(token) + (stream.rest() if self._left[index] == 0 else "")


def pieces_of(records: Iterable[dict]) -> dict[int, list[str]]:
    """Per request index, the text of each of its tokens, of one run whose records were written into."""
    found: dict[int, list[str]] = {}
    for record in records:
        for index, text in record.get("pieces", ()):
            found.setdefault(index, []).append(text)
    return found
