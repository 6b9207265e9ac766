/*
 * Copies, sums, lengths and formats of texts that end inside of their buffers: the names of the WDK's ntstrsafe.h. Written for vidmm
 * from public documentation. Formats of 2-byte text are not carried out: STATUS_NOT_SUPPORTED.
 */
#ifndef VIDMM_NTSTRSAFE_H
#define VIDMM_NTSTRSAFE_H

#include "ntddk.h"

#include <stdarg.h>

#define NTSTRSAFE_MAX_CCH 2147483647
#define NTSTRSAFE_MAX_LENGTH (NTSTRSAFE_MAX_CCH - 1)

/* The functions for a kind of characters. Sizes of Cch are in characters, with the end; those of Cb are in bytes. */
#define VIDMM_STRSAFE(suffix, CHARACTER)                                                                                   \
    FORCEINLINE NTSTATUS RtlStringCchLength##suffix(const CHARACTER *Text, SIZE_T Characters, SIZE_T *Length) {             \
        SIZE_T At = 0;                                                                                                     \
        while (Text != NULL && At < Characters && Text[At] != 0) {                                                         \
            At++;                                                                                                          \
        }                                                                                                                  \
        if (Length != NULL) {                                                                                              \
            *Length = Text != NULL && At < Characters ? At : 0;                                                            \
        }                                                                                                                  \
        return Text != NULL && At < Characters && Characters <= NTSTRSAFE_MAX_CCH ? STATUS_SUCCESS                         \
                                                                                  : STATUS_INVALID_PARAMETER;              \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCchCopyN##suffix(CHARACTER *To, SIZE_T Characters, const CHARACTER *From, SIZE_T Most) { \
        SIZE_T At = 0;                                                                                                     \
        if (Characters == 0 || Characters > NTSTRSAFE_MAX_CCH) {                                                           \
            return STATUS_INVALID_PARAMETER;                                                                               \
        }                                                                                                                  \
        while (At < Characters - 1 && At < Most && From[At] != 0) {                                                        \
            To[At] = From[At];                                                                                             \
            At++;                                                                                                          \
        }                                                                                                                  \
        To[At] = 0;                                                                                                        \
        return At < Most && From[At] != 0 ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;                                       \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCchCopy##suffix(CHARACTER *To, SIZE_T Characters, const CHARACTER *From) {                \
        return RtlStringCchCopyN##suffix(To, Characters, From, NTSTRSAFE_MAX_LENGTH);                                      \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCchCatN##suffix(CHARACTER *To, SIZE_T Characters, const CHARACTER *From, SIZE_T Most) {  \
        SIZE_T Length;                                                                                                     \
        NTSTATUS Status = RtlStringCchLength##suffix(To, Characters, &Length);                                             \
        return NT_SUCCESS(Status) ? RtlStringCchCopyN##suffix(To + Length, Characters - Length, From, Most) : Status;      \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCchCat##suffix(CHARACTER *To, SIZE_T Characters, const CHARACTER *From) {                 \
        return RtlStringCchCatN##suffix(To, Characters, From, NTSTRSAFE_MAX_LENGTH);                                       \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCbLength##suffix(const CHARACTER *Text, SIZE_T Bytes, SIZE_T *Length) {                   \
        NTSTATUS Status = RtlStringCchLength##suffix(Text, Bytes / sizeof(CHARACTER), Length);                             \
        if (Length != NULL) {                                                                                              \
            *Length *= sizeof(CHARACTER);                                                                                  \
        }                                                                                                                  \
        return Status;                                                                                                     \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCbCopyN##suffix(CHARACTER *To, SIZE_T Bytes, const CHARACTER *From, SIZE_T Most) {       \
        return RtlStringCchCopyN##suffix(To, Bytes / sizeof(CHARACTER), From, Most / sizeof(CHARACTER));                   \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCbCopy##suffix(CHARACTER *To, SIZE_T Bytes, const CHARACTER *From) {                      \
        return RtlStringCchCopy##suffix(To, Bytes / sizeof(CHARACTER), From);                                              \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCbCatN##suffix(CHARACTER *To, SIZE_T Bytes, const CHARACTER *From, SIZE_T Most) {        \
        return RtlStringCchCatN##suffix(To, Bytes / sizeof(CHARACTER), From, Most / sizeof(CHARACTER));                    \
    }                                                                                                                      \
    FORCEINLINE NTSTATUS RtlStringCbCat##suffix(CHARACTER *To, SIZE_T Bytes, const CHARACTER *From) {                       \
        return RtlStringCchCat##suffix(To, Bytes / sizeof(CHARACTER), From);                                               \
    }

VIDMM_STRSAFE(A, CHAR)
VIDMM_STRSAFE(W, WCHAR)

/* ntddk.h has RtlStringCbVPrintfA, RtlStringCchPrintfA and RtlStringCbPrintfW. */
FORCEINLINE NTSTATUS RtlStringCchVPrintfA(PSTR To, SIZE_T Characters, PCSTR Format, va_list Arguments) {
    return RtlStringCbVPrintfA(To, Characters, Format, Arguments);
}

FORCEINLINE NTSTATUS RtlStringCbPrintfA(PSTR To, SIZE_T Bytes, PCSTR Format, ...) {
    va_list Arguments;
    NTSTATUS Status;
    va_start(Arguments, Format);
    Status = RtlStringCbVPrintfA(To, Bytes, Format, Arguments);
    va_end(Arguments);
    return Status;
}

#define RtlStringCchPrintfW(To, Characters, ...) RtlStringCbPrintfW(To, (Characters) * sizeof(WCHAR), __VA_ARGS__)

#endif
