"""Documents of the vault: conversion, classification, embedding, step by step."""
