"""Grade a class: a folder of submissions in, marks and feedback out, and not one row lost.

`python -m grader.classroom SUBMISSIONS --out OUT` (or `nox -s grade -- ...`), in the order in which
the data flows:

`layouts`    what a folder of submissions looks like: plain, Moodle's, Canvas's, Gradescope's
`archives`   the files of a folder, a zip or a tar, read without unpacking and within limits
`intake`     from both: who handed in which kernel.py for which kata, or why it is not understood
`units`      the unit of work: one kata of one file; what it is known by, and when it is to be done anew
`store`      the SQLite database that results go into as they come
`job`        a process that judges one unit after another with the suites the learners ran
`local`      jobs side by side on this machine; `cluster` the same on a Ray cluster
`marks`      results as the class's table: points, maximum, status, notes
`outputs`    the table as files: CSV, JSON, JUnit, Gradescope, feedback; `page` is report.html
`progress`   a bar on a terminal, plain lines elsewhere
"""
