"""Runs natively: make native."""

import unittest

from hook import ANNOTATION, Title
from virt_hook import Veto
from virt_hook.testing import call

DOMAIN = "<domain>\n  <name>vm</name>\n</domain>\n"


def vmi(title):
    return {"metadata": {"name": "vm", "annotations": {ANNOTATION: title}}}


class TitleTest(unittest.TestCase):
    def test_the_annotation_becomes_the_title(self):
        domain = call(Title).on_define_domain(vmi("A & B"), DOMAIN)
        self.assertEqual(domain, "<domain>\n  <name>vm</name>\n  <title>A &amp; B</title>\n</domain>\n")

    def test_nothing_changes_without_the_annotation(self):
        self.assertEqual(call(Title).on_define_domain({}, DOMAIN), DOMAIN)

    def test_a_title_of_two_lines_is_refused(self):
        with self.assertRaisesRegex(Veto, "one line"):
            call(Title).pre_start(vmi("A\nB"))


if __name__ == "__main__":
    unittest.main()
