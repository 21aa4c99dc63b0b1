// Lexer: one loop over the bytes of the source.
#include "cell/lexer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Arena *arena;
    Diags *diags;
    const Source *source;
    size_t at;
    int line, column, open_parentheses;
    Token *tokens;
    size_t count;
} Lexer;

/// The byte `ahead` of here; 0 past the end.
static unsigned char peek(const Lexer *lexer, size_t ahead)
{
    size_t at = lexer->at + ahead;
    return at < lexer->source->length ? (unsigned char)lexer->source->text[at] : 0;
}

static Span here(const Lexer *lexer, size_t length)
{
    return (Span){lexer->source, lexer->line, lexer->column, (int)length};
}

static void push(Lexer *lexer, TokenKind kind, const char *text, size_t length, Span span)
{
    Token token = {.kind = kind, .text = arena_copy(lexer->arena, text, length), .span = span};
    if (kind == TOKEN_NUMBER)
        token.number = strtod(token.text, NULL);
    ARENA_PUSH(lexer->arena, lexer->tokens, lexer->count, token);
}

/// A token of the next `length` bytes, all on this line.
static void take(Lexer *lexer, TokenKind kind, size_t length)
{
    push(lexer, kind, lexer->source->text + lexer->at, length, here(lexer, length));
    lexer->at += length;
    lexer->column += (int)length;
}

static void skip(Lexer *lexer, size_t length)
{
    lexer->at += length;
    lexer->column += (int)length;
}

static void skip_comment(Lexer *lexer)
{
    while (lexer->at < lexer->source->length && peek(lexer, 0) != '\n')
        skip(lexer, 1);
}

static bool is_name(unsigned char byte)
{
    return byte < 128 && (isalnum(byte) || byte == '_');
}

static size_t digits(const Lexer *lexer, size_t from)
{
    while (isdigit(peek(lexer, from)))
        from++;
    return from;
}

/// digits [. digits] [e [sign] digits]
static void take_number(Lexer *lexer)
{
    size_t length = digits(lexer, 0);
    if (peek(lexer, length) == '.')
        length = digits(lexer, length + 1);
    if (peek(lexer, length) == 'e' || peek(lexer, length) == 'E') {
        size_t exponent = length + 1;
        exponent += peek(lexer, exponent) == '+' || peek(lexer, exponent) == '-';
        if (isdigit(peek(lexer, exponent)))
            length = digits(lexer, exponent);
    }
    size_t tail = length;
    while (is_name(peek(lexer, tail)))
        tail++;
    if (tail > length) {
        Diag *diag = diag_add(lexer->diags, DIAG_E0304, here(lexer, tail), "'%.*s' is no number",
                              (int)tail, lexer->source->text + lexer->at);
        diag_help(diag, "a product needs its sign: 2*x");
        lexer->at += tail - length;
    }
    take(lexer, TOKEN_NUMBER, length);
    lexer->column += (int)(tail - length);
}

static void take_string(Lexer *lexer)
{
    size_t length = 1;
    while (peek(lexer, length) && peek(lexer, length) != '"' && peek(lexer, length) != '\n')
        length++;
    Span span = here(lexer, length + 1);
    if (peek(lexer, length) != '"')
        diag_add(lexer->diags, DIAG_E0304, span, "the string has no closing quote");
    push(lexer, TOKEN_STRING, lexer->source->text + lexer->at + 1, length - 1, span);
    skip(lexer, length + (peek(lexer, length) == '"'));
}

static void refuse(Lexer *lexer)
{
    size_t length = 1;
    while ((peek(lexer, length) & 0xC0) == 0x80) // the rest of a UTF-8 character
        length++;
    unsigned char byte = peek(lexer, 0);
    if (isprint(byte) || byte >= 128)
        diag_add(lexer->diags, DIAG_E0304, here(lexer, length), "unexpected character '%.*s'",
                 (int)length, lexer->source->text + lexer->at);
    else
        diag_add(lexer->diags, DIAG_E0304, here(lexer, length), "unexpected byte 0x%02x", byte);
    skip(lexer, length);
}

static void take_sign(Lexer *lexer)
{
    static const char *const pairs[] = {"<=", ">=", "==", "!=", "&&", "||", "**"};
    char pair[3] = {(char)peek(lexer, 0), (char)peek(lexer, 1), 0};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strcmp(pair, pairs[i]) == 0) {
            take(lexer, TOKEN_SIGN, 2);
            return;
        }
    if (!pair[0] || !strchr("+-*/<>=?:(),.'^!%[]{}@", pair[0])) {
        refuse(lexer);
        return;
    }
    if (pair[0] == '(')
        lexer->open_parentheses++;
    if (pair[0] == ')' && lexer->open_parentheses > 0)
        lexer->open_parentheses--;
    take(lexer, TOKEN_SIGN, 1);
}

/// Does this line start a statement (a word and then =, a prime, or a string or name)? Then a
/// parenthesis of the line before was left open, and the break counts.
static bool statement_follows(const Lexer *lexer)
{
    size_t at = 1;
    while (peek(lexer, at) == ' ' || peek(lexer, at) == '\t')
        at++;
    if (!isalpha(peek(lexer, at)))
        return false;
    while (is_name(peek(lexer, at)))
        at++;
    at += peek(lexer, at) == '\'';
    while (peek(lexer, at) == ' ' || peek(lexer, at) == '\t')
        at++;
    return peek(lexer, at) == '=' && peek(lexer, at + 1) != '=';
}

static void take_newline(Lexer *lexer)
{
    if (lexer->open_parentheses == 0 || statement_follows(lexer)) {
        push(lexer, TOKEN_NEWLINE, "\n", 1, here(lexer, 1));
        lexer->open_parentheses = 0;
    }
    lexer->at++;
    lexer->line++;
    lexer->column = 1;
}

const Token *lexer_run(Arena *arena, Diags *diags, const Source *source)
{
    Lexer lexer = {.arena = arena, .diags = diags, .source = source, .line = 1, .column = 1};
    while (lexer.at < source->length) {
        unsigned char byte = peek(&lexer, 0);
        if (byte == '\n')
            take_newline(&lexer);
        else if (byte == ' ' || byte == '\t' || byte == '\r')
            skip(&lexer, 1);
        else if (byte == '#')
            skip_comment(&lexer);
        else if (isdigit(byte) || (byte == '.' && isdigit(peek(&lexer, 1))))
            take_number(&lexer);
        else if (byte < 128 && (isalpha(byte) || byte == '_')) {
            size_t length = 1;
            while (is_name(peek(&lexer, length)))
                length++;
            take(&lexer, TOKEN_NAME, length);
        } else if (byte == '"')
            take_string(&lexer);
        else
            take_sign(&lexer);
    }
    push(&lexer, TOKEN_END, "", 0, here(&lexer, 0));
    return lexer.tokens;
}
