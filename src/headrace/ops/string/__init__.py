"""Strings: conversion, parts, patterns."""
