#!/bin/sh
# Commands killed with SIGKILL at a few moments (more: tests/killed.sh 40); tests/killed.sh checks the results.
exec sh tests/killed.sh "${N:-7}"
