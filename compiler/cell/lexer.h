// Lexer of the cell language: a text cut into tokens that know their place. Knows no grammar.
#ifndef RNNC_CELL_LEXER_H
#define RNNC_CELL_LEXER_H

#include "base/diag.h"

typedef enum {
    TOKEN_END,
    TOKEN_NEWLINE,
    TOKEN_NUMBER,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_SIGN
} TokenKind;

typedef struct {
    TokenKind kind;
    const char *text; ///< a copy; a string's without its quotes; a sign's "<=", "'", ...
    double number;
    Span span;
} Token;

/// Cuts `source` into tokens, the last of which is TOKEN_END. Comments run from # to the end of the
/// line; a line break inside parentheses is no token. Adds E0304 for what is no token, and goes on
/// behind it.
const Token *lexer_run(Arena *arena, Diags *diags, const Source *source);

#endif
