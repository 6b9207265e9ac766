/*
 * The basic types of Windows kernel code, for gcc and clang on Linux: LONG and ULONG have 32 bits, WCHAR has 2 bytes, words of
 * calling conventions and of source annotations are empty. Written for vidmm from public documentation.
 */
#ifndef VIDMM_NTDEF_H
#define VIDMM_NTDEF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define EXTERN_C extern "C"
#define EXTERN_C_START extern "C" {
#define EXTERN_C_END }
#else
#define EXTERN_C extern
#define EXTERN_C_START
#define EXTERN_C_END
#endif

#define NTAPI
#define APIENTRY
#define WINAPI
#define CALLBACK
#define FASTCALL
#define __stdcall
#define __cdecl
#define __fastcall
#define _Use_decl_annotations_
#define _In_
#define _In_opt_
#define _Out_
#define _Out_opt_
#define _Inout_
#define _Inout_opt_
#define _In_reads_(n)
#define _In_reads_bytes_(n)
#define _In_reads_opt_(n)
#define _Out_writes_(n)
#define _Out_writes_bytes_(n)
#define _Inout_updates_(n)
#define _Inout_updates_bytes_(n)
#define _Field_size_(n)
#define _Field_size_bytes_(n)
#define _IRQL_requires_(level)
#define _IRQL_requires_max_(level)
#define _IRQL_requires_same_
#define _Must_inspect_result_
#define _Success_(expression)
#define _When_(condition, annotation)
#define _Function_class_(name)
#define _Check_return_
#define _In_z_
#define _In_reads_bytes_opt_(n)
#define _In_reads_or_z_(n)
#define _Out_writes_opt_(n)
#define _Out_writes_all_(n)
#define _Out_writes_bytes_opt_(n)
#define _Out_writes_to_(n, m)
#define _Inout_updates_opt_(n)
#define _Outptr_
#define _Outptr_opt_
#define _Outptr_result_maybenull_
#define _Outptr_result_bytebuffer_(n)
#define _Ret_maybenull_
#define _Post_satisfies_(condition)
#define _IRQL_requires_min_(level)
#define _IRQL_raises_(level)
#define _IRQL_saves_
#define _IRQL_restores_
#define _IRQL_saves_global_(kind, parameter)
#define _IRQL_restores_global_(kind, parameter)
#define _Requires_lock_held_(lock)
#define _Requires_lock_not_held_(lock)
#define _Acquires_lock_(lock)
#define _Releases_lock_(lock)
#define _Guarded_by_(lock)
#define _Analysis_assume_(expression) ((void)0)
#define __drv_reportError(text)
#define __drv_aliasesMem
#define __drv_allocatesMem(kind)
#define __drv_freesMem(kind)
#define __in_bcount(n)
#define __out_bcount(n)
#define __in
#define __in_opt
#define __out
#define __out_opt
#define __inout
#define __inout_opt
#define __pragma(text)
#define __declspec(attribute)
#define __forceinline inline __attribute__((always_inline))
#define DECLSPEC_ALIGN(n) __attribute__((aligned(n)))
#define UNALIGNED
#define CONST const
#define IN
#define OUT
#define OPTIONAL
#define PAGED_CODE() ((void)0)
#define UNREFERENCED_PARAMETER(parameter) ((void)(parameter))
#define DECLSPEC_NOINLINE __attribute__((noinline))
#define FORCEINLINE static inline

typedef void VOID, *PVOID;
typedef void *HANDLE, **PHANDLE;
typedef char CHAR, *PCHAR;
typedef char *PSTR;
typedef const char *PCSTR, *PCCHAR;
typedef unsigned char UCHAR, *PUCHAR, BYTE, *PBYTE, BOOLEAN, *PBOOLEAN;
typedef int8_t INT8;
typedef uint8_t UINT8, *PUINT8;
typedef int16_t SHORT, *PSHORT, INT16, CSHORT;
typedef uint16_t USHORT, *PUSHORT, WORD, UINT16, *PUINT16;
typedef int32_t LONG, *PLONG, INT, *PINT, INT32, BOOL, *PBOOL;
typedef uint32_t ULONG, *PULONG, UINT, *PUINT, UINT32, *PUINT32, DWORD, *PDWORD;
typedef int64_t LONGLONG, *PLONGLONG, LONG64, INT64;
typedef uint64_t ULONGLONG, *PULONGLONG, ULONG64, *PULONG64, UINT64, *PUINT64, DWORDLONG;
typedef intptr_t LONG_PTR, INT_PTR, SSIZE_T;
typedef uintptr_t ULONG_PTR, *PULONG_PTR, UINT_PTR, DWORD_PTR;
typedef size_t SIZE_T, *PSIZE_T;
typedef uint16_t WCHAR, *PWCHAR, *PWSTR;
typedef const uint16_t *PCWSTR;
typedef LONG NTSTATUS, *PNTSTATUS;
typedef ULONG ACCESS_MASK;
typedef UCHAR KIRQL, *PKIRQL;
typedef float FLOAT, *PFLOAT;
typedef LONG KPRIORITY;
typedef ULONG_PTR KSPIN_LOCK, *PKSPIN_LOCK;
typedef ULONG_PTR PFN_NUMBER, *PPFN_NUMBER;

#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif

typedef union _LARGE_INTEGER {
    struct {
        ULONG LowPart;
        LONG HighPart;
    };
    struct {
        ULONG LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

typedef union _ULARGE_INTEGER {
    struct {
        ULONG LowPart;
        ULONG HighPart;
    };
    ULONGLONG QuadPart;
} ULARGE_INTEGER, *PULARGE_INTEGER;

typedef LARGE_INTEGER PHYSICAL_ADDRESS, *PPHYSICAL_ADDRESS;

typedef struct _RECT {
    LONG left;
    LONG top;
    LONG right;
    LONG bottom;
} RECT, *PRECT;

typedef struct _LUID {
    ULONG LowPart;
    LONG HighPart;
} LUID, *PLUID;

typedef struct _GUID {
    ULONG Data1;
    USHORT Data2;
    USHORT Data3;
    UCHAR Data4[8];
} GUID;
typedef const GUID *LPCGUID;

typedef struct _UNICODE_STRING {
    USHORT Length;
    USHORT MaximumLength;
    PWSTR Buffer;
} UNICODE_STRING, *PUNICODE_STRING;
typedef const UNICODE_STRING *PCUNICODE_STRING;

typedef struct _STRING {
    USHORT Length;
    USHORT MaximumLength;
    PCHAR Buffer;
} STRING, *PSTRING, ANSI_STRING, *PANSI_STRING;
typedef const char *PCSZ;

/* Text of 2-byte characters is u"text" here. */
#define DECLARE_CONST_UNICODE_STRING(variable, text)                                                                             \
    static const WCHAR variable##_buffer[] = text;                                                                               \
    static const UNICODE_STRING variable = {sizeof(text) - sizeof(WCHAR), sizeof(text), (PWSTR)variable##_buffer}
#define DECLARE_UNICODE_STRING_SIZE(variable, characters)                                                                        \
    WCHAR variable##_buffer[characters];                                                                                         \
    UNICODE_STRING variable = {0, (characters) * sizeof(WCHAR), variable##_buffer}

typedef struct _LIST_ENTRY {
    struct _LIST_ENTRY *Flink;
    struct _LIST_ENTRY *Blink;
} LIST_ENTRY, *PLIST_ENTRY;

#define CONTAINING_RECORD(address, type, field) ((type *)((char *)(address)-offsetof(type, field)))
#define FIELD_OFFSET(type, field) ((LONG)offsetof(type, field))
#define ARRAYSIZE(array) (sizeof(array) / sizeof((array)[0]))
#define RtlZeroMemory(destination, size) memset((destination), 0, (size))
#define RtlFillMemory(destination, size, byte) memset((destination), (byte), (size))
#define RtlCopyMemory(destination, source, size) memcpy((destination), (source), (size))
#define RtlMoveMemory(destination, source, size) memmove((destination), (source), (size))

#ifndef __cplusplus
#define C_ASSERT(expression) _Static_assert(expression, #expression)
#else
#define C_ASSERT(expression) static_assert(expression, #expression)
#endif

/* Macros of these names would break headers of C++. */
#if !defined(NOMINMAX) && !defined(min)
#ifndef __cplusplus
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#else
/* A driver may include this in a block of extern "C". */
extern "C++" {
template <class One, class Two>
constexpr auto min(One a, Two b) -> decltype(a < b ? One(a) : Two(b)) {
    return a < b ? a : b;
}
template <class One, class Two>
constexpr auto max(One a, Two b) -> decltype(a > b ? One(a) : Two(b)) {
    return a > b ? a : b;
}
}
#endif
#endif

#define MINCHAR 0x80
#define MAXCHAR 0x7F
#define MAXUCHAR 0xFF
#define MINSHORT 0x8000
#define MAXSHORT 0x7FFF
#define MAXUSHORT 0xFFFF
#define MAXWORD 0xFFFF
#define MINLONG 0x80000000
#define MAXLONG 0x7FFFFFFF
#define MAXULONG 0xFFFFFFFF
#define MAXUINT 0xFFFFFFFF
#define MAXDWORD 0xFFFFFFFF
#define MAXLONGLONG 0x7FFFFFFFFFFFFFFFll
#define MINLONGLONG (~MAXLONGLONG)
#define MAXULONGLONG 0xFFFFFFFFFFFFFFFFull
#define MAXSIZE_T ((SIZE_T)~(SIZE_T)0)
#define MAXULONG_PTR ((ULONG_PTR)~(ULONG_PTR)0)

#define PAGE_SHIFT 12
#define PAGE_SIZE 0x1000
#define ROUND_TO_PAGES(size) (((ULONG_PTR)(size) + PAGE_SIZE - 1) & ~(ULONG_PTR)(PAGE_SIZE - 1))
#define BYTES_TO_PAGES(size) (((SIZE_T)(size) >> PAGE_SHIFT) + (((SIZE_T)(size) & (PAGE_SIZE - 1)) != 0))

#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#define STATUS_SUCCESS ((NTSTATUS)0x00000000)
#define STATUS_TIMEOUT ((NTSTATUS)0x00000102)
#define STATUS_PENDING ((NTSTATUS)0x00000103)
#define STATUS_BUFFER_OVERFLOW ((NTSTATUS)0x80000005)
#define STATUS_UNSUCCESSFUL ((NTSTATUS)0xC0000001)
#define STATUS_NOT_IMPLEMENTED ((NTSTATUS)0xC0000002)
#define STATUS_INVALID_HANDLE ((NTSTATUS)0xC0000008)
#define STATUS_OBJECT_NAME_NOT_FOUND ((NTSTATUS)0xC0000034)
#define STATUS_INVALID_PARAMETER ((NTSTATUS)0xC000000D)
#define STATUS_NO_MEMORY ((NTSTATUS)0xC0000017)
#define STATUS_ILLEGAL_INSTRUCTION ((NTSTATUS)0xC000001D)
#define STATUS_BUFFER_TOO_SMALL ((NTSTATUS)0xC0000023)
#define STATUS_REVISION_MISMATCH ((NTSTATUS)0xC0000059)
#define STATUS_PRIVILEGED_INSTRUCTION ((NTSTATUS)0xC0000096)
#define STATUS_INSUFFICIENT_RESOURCES ((NTSTATUS)0xC000009A)
#define STATUS_NOT_SUPPORTED ((NTSTATUS)0xC00000BB)
#define STATUS_INVALID_USER_BUFFER ((NTSTATUS)0xC00000E8)
#define STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER ((NTSTATUS)0xC01E0001)
#define STATUS_GRAPHICS_DRIVER_MISMATCH ((NTSTATUS)0xC01E0009)
#define STATUS_GRAPHICS_NO_VIDEO_MEMORY ((NTSTATUS)0xC01E0100)
#define STATUS_GRAPHICS_ALLOCATION_BUSY ((NTSTATUS)0xC01E0102)
#define STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE ((NTSTATUS)0xC01E0200)
#define STATUS_WAIT_0 ((NTSTATUS)0x00000000)
#define STATUS_WAIT_1 ((NTSTATUS)0x00000001)
#define STATUS_WAIT_2 ((NTSTATUS)0x00000002)
#define STATUS_ABANDONED ((NTSTATUS)0x00000080)
#define STATUS_ALERTED ((NTSTATUS)0x00000101)
#define STATUS_GRAPHICS_NO_MORE_ELEMENTS ((NTSTATUS)0x401E034C)
#define STATUS_PARTIAL_COPY ((NTSTATUS)0x8000000D)
#define STATUS_DATATYPE_MISALIGNMENT ((NTSTATUS)0x80000002)
#define STATUS_DEVICE_BUSY ((NTSTATUS)0x80000011)
#define STATUS_NO_MORE_ENTRIES ((NTSTATUS)0x8000001A)
#define STATUS_ACCESS_VIOLATION ((NTSTATUS)0xC0000005)
#define STATUS_NO_SUCH_DEVICE ((NTSTATUS)0xC000000E)
#define STATUS_INVALID_DEVICE_REQUEST ((NTSTATUS)0xC0000010)
#define STATUS_ACCESS_DENIED ((NTSTATUS)0xC0000022)
#define STATUS_INVALID_IMAGE_FORMAT ((NTSTATUS)0xC000007B)
#define STATUS_ARRAY_BOUNDS_EXCEEDED ((NTSTATUS)0xC000008C)
#define STATUS_INTEGER_OVERFLOW ((NTSTATUS)0xC0000095)
#define STATUS_DEVICE_NOT_READY ((NTSTATUS)0xC00000A3)
#define STATUS_IO_TIMEOUT ((NTSTATUS)0xC00000B5)
#define STATUS_INVALID_PARAMETER_1 ((NTSTATUS)0xC00000EF)
#define STATUS_INVALID_PARAMETER_2 ((NTSTATUS)0xC00000F0)
#define STATUS_DEVICE_CONFIGURATION_ERROR ((NTSTATUS)0xC0000182)
#define STATUS_INVALID_DEVICE_STATE ((NTSTATUS)0xC0000184)
#define STATUS_INVALID_BUFFER_SIZE ((NTSTATUS)0xC0000206)
#define STATUS_ADDRESS_ALREADY_EXISTS ((NTSTATUS)0xC000020A)
#define STATUS_NOT_FOUND ((NTSTATUS)0xC0000225)
#define STATUS_ACPI_INVALID_DATA ((NTSTATUS)0xC014000F)
#define STATUS_MONITOR_NO_DESCRIPTOR ((NTSTATUS)0xC01D0001)
#define STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA ((NTSTATUS)0xC01D0008)
#define STATUS_GRAPHICS_GPU_BUSY ((NTSTATUS)0xC01E0102)
#define STATUS_GRAPHICS_INVALID_VIDPN_TOPOLOGY ((NTSTATUS)0xC01E0301)
#define STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE_MODE ((NTSTATUS)0xC01E0310)
#define STATUS_GRAPHICS_MODE_ALREADY_IN_MODESET ((NTSTATUS)0xC01E0314)
#define STATUS_GRAPHICS_NO_RECOMMENDED_FUNCTIONAL_VIDPN ((NTSTATUS)0xC01E0323)
#define STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED ((NTSTATUS)0xC01E0401)

#endif
