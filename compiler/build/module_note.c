// The note of a module: a walk through the note segments and note sections of an ELF64 file. Every
// offset and count comes from the file and is checked against its size before use.
#include "build/module_note.h"

#include <elf.h>
#include <string.h>

static const char owner[] = "rnnc";
enum { DESCRIPTOR_TYPE = 1 };

typedef struct {
    const unsigned char *bytes;
    size_t size_bytes;
    const char *text; ///< NULL: not found yet
    size_t length;
} Search;

/// Whether `count` bytes at `at` are in the file.
static bool within(const Search *search, uint64_t at, uint64_t count)
{
    return at <= search->size_bytes && count <= search->size_bytes - at;
}

static size_t padded(size_t size, size_t alignment)
{
    return (size + alignment - 1) / alignment * alignment;
}

/// Looks through the notes in [at, at + count); a note that does not fit ends the walk.
static void search_notes(Search *search, uint64_t at, uint64_t count, uint64_t alignment)
{
    if (search->text || !within(search, at, count))
        return;
    const unsigned char *from = search->bytes + at;
    size_t left = (size_t)count, step = alignment == 8 ? 8 : 4;
    while (left >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, from, sizeof note);
        size_t name_bytes = padded(note.n_namesz, 4);
        size_t text_at = padded(sizeof note + name_bytes, step);
        if (text_at > left || note.n_descsz > left - text_at)
            return;
        if (note.n_type == DESCRIPTOR_TYPE && note.n_namesz == sizeof owner &&
            memcmp(from + sizeof note, owner, sizeof owner) == 0) {
            search->text = (const char *)from + text_at;
            search->length = note.n_descsz;
            return;
        }
        size_t whole = padded(text_at + note.n_descsz, step);
        if (whole > left)
            return;
        from += whole;
        left -= whole;
    }
}

static void search_segments(Search *search, const Elf64_Ehdr *header)
{
    uint64_t bytes = (uint64_t)header->e_phnum * sizeof(Elf64_Phdr);
    if (header->e_phentsize != sizeof(Elf64_Phdr) || !within(search, header->e_phoff, bytes))
        return;
    for (int i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, search->bytes + header->e_phoff + (size_t)i * sizeof segment,
               sizeof segment);
        if (segment.p_type == PT_NOTE)
            search_notes(search, segment.p_offset, segment.p_filesz, segment.p_align);
    }
}

static void search_sections(Search *search, const Elf64_Ehdr *header)
{
    uint64_t bytes = (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
    if (header->e_shentsize != sizeof(Elf64_Shdr) || !within(search, header->e_shoff, bytes))
        return;
    for (int i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, search->bytes + header->e_shoff + (size_t)i * sizeof section,
               sizeof section);
        if (section.sh_type == SHT_NOTE)
            search_notes(search, section.sh_offset, section.sh_size, section.sh_addralign);
    }
}

bool module_note_find(Diags *diags, const char *path, const unsigned char *bytes, size_t size_bytes,
                      const char **out_text, size_t *out_length)
{
    Elf64_Ehdr header;
    if (size_bytes < sizeof header || memcmp(bytes, ELFMAG, SELFMAG) != 0 ||
        bytes[EI_CLASS] != ELFCLASS64 || bytes[EI_DATA] != ELFDATA2LSB) {
        diag_add(diags, DIAG_E0802, (Span){0}, "'%s' is not a 64-bit ELF file", path);
        return false;
    }
    memcpy(&header, bytes, sizeof header);
    Search search = {.bytes = bytes, .size_bytes = size_bytes};
    search_segments(&search, &header);
    search_sections(&search, &header);
    if (!search.text) {
        diag_add(diags, DIAG_E0802, (Span){0}, "'%s' has no note of rnnc: it is no module", path);
        return false;
    }
    while (search.length > 0 && search.text[search.length - 1] == '\0')
        search.length -= 1;
    *out_text = search.text;
    *out_length = search.length;
    return true;
}
