"""Text files as one stream of byte tokens, cut into rows: the layout both comparison tools share.

A token id is a byte's value. A line that is exactly "%" ends a document and becomes the end token
256: its newline goes with it, the one before it belongs to the document. The end of a file ends a
document too. Empty documents are dropped. With a sequence length S, row i has the inputs
tokens[i*S : i*S+S] and the targets tokens[i*S+1 : i*S+S+1].
"""
import torch

END = 256
VOCABULARY = 257


def read_documents(paths):
    """The documents of the files in order, as bytes."""
    documents = []
    for path in paths:
        lines = []
        with open(path, "rb") as file:
            for line in file:
                if line.rstrip(b"\n") == b"%":
                    documents.append(b"".join(lines))
                    lines = []
                else:
                    lines.append(line)
        documents.append(b"".join(lines))
    return [document for document in documents if document]


def join(encoded, end):
    """One stream [tokens] of the documents' ids, each document followed by `end`."""
    stream = []
    for ids in encoded:
        stream.extend(ids)
        stream.append(end)
    return torch.tensor(stream, dtype=torch.int64)


def byte_stream(paths):
    return join(read_documents(paths), END)


def full_rows(tokens, sequence_length):
    """(inputs, targets), each [rows, sequence_length]; what does not fill a row is left out."""
    rows = (len(tokens) - 1) // sequence_length
    used = rows * sequence_length
    return (tokens[:used].view(rows, sequence_length),
            tokens[1:used + 1].view(rows, sequence_length))
