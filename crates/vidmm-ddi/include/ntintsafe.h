/*
 * Sums, differences, products and conversions of integers that say when the result does not fit: the names of the WDK's ntintsafe.h.
 * Written for vidmm from public documentation.
 */
#ifndef VIDMM_NTINTSAFE_H
#define VIDMM_NTINTSAFE_H

#include "ntddk.h"

/* A result that does not fit has all bits set. */
#define VIDMM_INTSAFE_RESULT(type, has_overflown) \
    if (has_overflown) {                          \
        *Result = (type)-1;                       \
        return STATUS_INTEGER_OVERFLOW;           \
    }                                             \
    return STATUS_SUCCESS

#define VIDMM_INTSAFE(function, type, operation)                            \
    FORCEINLINE NTSTATUS function(type One, type Two, type *Result) {       \
        VIDMM_INTSAFE_RESULT(type, __builtin_##operation##_overflow(One, Two, Result)); \
    }

#define VIDMM_INTSAFE_CONVERSION(function, from, to)                        \
    FORCEINLINE NTSTATUS function(from Value, to *Result) {                 \
        VIDMM_INTSAFE_RESULT(to, __builtin_add_overflow(Value, (from)0, Result)); \
    }

#define VIDMM_INTSAFE_ALL(name, type)            \
    VIDMM_INTSAFE(Rtl##name##Add, type, add)     \
    VIDMM_INTSAFE(Rtl##name##Sub, type, sub)     \
    VIDMM_INTSAFE(Rtl##name##Mult, type, mul)

VIDMM_INTSAFE_ALL(UShort, USHORT)
VIDMM_INTSAFE_ALL(UInt, UINT)
VIDMM_INTSAFE_ALL(ULongLong, ULONGLONG)
VIDMM_INTSAFE_ALL(ULongPtr, ULONG_PTR)
VIDMM_INTSAFE_ALL(Int, INT)
VIDMM_INTSAFE_ALL(Long, LONG)
VIDMM_INTSAFE_ALL(LongLong, LONGLONG)
/* ntddk.h has RtlULongAdd, RtlSizeTAdd and RtlSizeTMult. */
VIDMM_INTSAFE(RtlULongSub, ULONG, sub)
VIDMM_INTSAFE(RtlULongMult, ULONG, mul)
VIDMM_INTSAFE(RtlSizeTSub, SIZE_T, sub)

VIDMM_INTSAFE_CONVERSION(RtlLongToULong, LONG, ULONG)
VIDMM_INTSAFE_CONVERSION(RtlLongLongToLong, LONGLONG, LONG)
VIDMM_INTSAFE_CONVERSION(RtlLongLongToULong, LONGLONG, ULONG)
VIDMM_INTSAFE_CONVERSION(RtlLongLongToULongLong, LONGLONG, ULONGLONG)
VIDMM_INTSAFE_CONVERSION(RtlSizeTToULong, SIZE_T, ULONG)
VIDMM_INTSAFE_CONVERSION(RtlSizeTToUInt, SIZE_T, UINT)
VIDMM_INTSAFE_CONVERSION(RtlUIntToUShort, UINT, USHORT)
VIDMM_INTSAFE_CONVERSION(RtlULongToLong, ULONG, LONG)
VIDMM_INTSAFE_CONVERSION(RtlULongToUShort, ULONG, USHORT)
VIDMM_INTSAFE_CONVERSION(RtlULongToUChar, ULONG, UCHAR)
VIDMM_INTSAFE_CONVERSION(RtlULongLongToLong, ULONGLONG, LONG)
VIDMM_INTSAFE_CONVERSION(RtlULongLongToLongLong, ULONGLONG, LONGLONG)
VIDMM_INTSAFE_CONVERSION(RtlULongLongToSizeT, ULONGLONG, SIZE_T)
VIDMM_INTSAFE_CONVERSION(RtlULongLongToUInt, ULONGLONG, UINT)
VIDMM_INTSAFE_CONVERSION(RtlULongLongToULong, ULONGLONG, ULONG)
VIDMM_INTSAFE_CONVERSION(RtlULongPtrToULong, ULONG_PTR, ULONG)

#endif
