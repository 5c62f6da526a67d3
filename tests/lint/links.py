#!/usr/bin/python3
"""Every link of the pages to a file or heading of the tree finds it. TAP."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def text_of(page):
    """Without what is code."""
    return re.sub(r'^```.*?^```', '', page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r'^#+ (.*)', text_of(page), re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


def fault(page, link):
    """What is wrong with it; None: nothing."""
    path, _, anchor = link.partition('#')
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return 'no such file'
    if anchor and target.suffix == '.md' and anchor not in anchors_of(target):
        return 'no such heading'
    return None


def main():
    pages = [*ROOT.glob('*.md'), *(ROOT / 'docs').glob('*.md')]
    links = [(page, link) for page in pages
             for link in re.findall(r'\]\(([^)\s]+)\)', text_of(page))
             if not re.match(r'[a-z]+:', link)]
    wrong = [f'{page.relative_to(ROOT)}: {link}: {fault(page, link)}'
             for page, link in links if fault(page, link)]
    print('1..1')
    print(f'{"not ok" if wrong or not links else "ok"} 1 - {len(links)} links lead somewhere')
    for line in wrong:
        print(f'# {line}')
    return 1 if wrong or not links else 0


if __name__ == '__main__':
    sys.exit(main())
