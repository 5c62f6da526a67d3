#!/usr/bin/python3
"""Starts grpc_js_server.mjs, which needs Node and npm's packages: grpc_js_server.py --listen A."""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
os.execvp('node', ['node', str(HERE / 'grpc_js_server.mjs'), *sys.argv[1:]])
