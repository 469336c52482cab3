"""Recognise text files in place of images: version-control pointers, error pages of servers, lists."""

import re

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# Start of the text in lower case, and the name of its kind.
_BEGINNINGS = (
    (b"version https://git-lfs.github.com/spec/", "a Git LFS pointer: run git lfs pull"),
    (b"version https://hawser.github.com/spec/", "a Git LFS pointer: run git lfs pull"),
    (b"/annex/objects/", "a git-annex pointer: run git annex get"),
    (b"outs:\n- md5:", "a DVC pointer: run dvc pull"),
    (b"outs:\n- hash:", "a DVC pointer: run dvc pull"),
    (b"outs:\n- etag:", "a DVC pointer: run dvc pull"),
    (b"[internetshortcut]", "a link to a web page"),
    (b"[desktop entry]", "a desktop shortcut"),
    (b"intxlnk", "a Cygwin link"),
    (b"!<symlink>", "a Cygwin link"),
    (b"xsym\n", "a link stored as text; copy the file that it points to"),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"data:image/", "an image as base64 text; decode it first"),
    (b"/9j/4", "a JPEG as base64 text; decode it first"),
    (b"ivborw0kggo", "a PNG as base64 text; decode it first"),
    (b"<<<<<<< ", "a file with a merge conflict"),
)
_ERROR = re.compile(rb"<error>(?:.*?<code>([\w.-]{1,60})</code>)?", re.DOTALL | re.IGNORECASE)
_ANNEX = re.compile(rb"(?:\.\./)*\.git/annex/objects/")
_HTML = re.compile(rb"^(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|body)\b", re.DOTALL)


def describe_text(head: bytes) -> tuple[str, str] | None:
    """Return the reason code and a name for a file that begins with text or zeros; None for other data."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"<svg" in text[:1000]:
        return "unsupported_format", "SVG; render it to PNG first"
    for beginning, name in _BEGINNINGS:
        if text.replace(b"\r\n", b"\n").startswith(beginning):
            return "not_an_image", name
    if _ANNEX.match(text):
        return "not_an_image", "a git-annex pointer: run git annex get"
    if _HTML.match(text):
        return "not_an_image", "an HTML page"
    if text.startswith((b"<?xml", b"<error>")):
        return "not_an_image", _describe_xml(head)
    if not head.strip(b"\0"):
        return "not_an_image", "only zero bytes"
    if head.startswith(_UTF16) and head.decode("utf-16", "replace").replace("\r", "").replace("\n", "").isprintable():
        return "not_an_image", "text in UTF-16"
    if all(byte >= 0x20 or byte in b"\t\r\n\f\x1b" for byte in head):
        return "not_an_image", "JSON" if re.match(rb'[{\[]\s*["{\[]', text) else "text"
    return None


def _describe_xml(head: bytes) -> str:
    # Storage servers send an XML document instead of an object, and download tools save it.
    error = _ERROR.search(head)
    if not error:
        return "an XML document"
    code = f" ({error[1].decode()})" if error[1] else ""
    return f"an error message of a storage server{code}; download the file again"
