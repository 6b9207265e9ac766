/*
 * The registry: every key is there, and all have the same values.
 */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>

#define VALUES_MAX 64

static struct {
    char Name[64];
    char Value[192];
} g_Values[VALUES_MAX];
static UINT g_ValueCount;

void VidmmSetRegistryValue(const char *Name, const char *Value) {
    if (g_ValueCount < VALUES_MAX) {
        snprintf(g_Values[g_ValueCount].Name, sizeof(g_Values[0].Name), "%s", Name);
        snprintf(g_Values[g_ValueCount].Value, sizeof(g_Values[0].Value), "%s", Value);
        g_ValueCount++;
    }
}

VOID RtlInitUnicodeString(PUNICODE_STRING DestinationString, PCWSTR SourceString) {
    USHORT Length = 0;
    while (SourceString != NULL && SourceString[Length] != 0) {
        Length++;
    }
    DestinationString->Buffer = (PWSTR)(ULONG_PTR)SourceString;
    DestinationString->Length = (USHORT)(Length * sizeof(WCHAR));
    DestinationString->MaximumLength = (USHORT)(SourceString != NULL ? (Length + 1) * sizeof(WCHAR) : 0);
}

NTSTATUS ZwOpenKey(PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes) {
    (void)DesiredAccess;
    (void)ObjectAttributes;
    VidmmCheckIrql("ZwOpenKey", PASSIVE_LEVEL);
    *KeyHandle = VidmmNewObject(VidmmKey);
    return *KeyHandle != NULL ? STATUS_SUCCESS : STATUS_NO_MEMORY;
}

static BOOLEAN IsNamed(const UNICODE_STRING *Name, const char *Text) {
    USHORT At, Length = (USHORT)(Name->Length / sizeof(WCHAR));
    for (At = 0; At < Length; At++) {
        WCHAR Given = Name->Buffer[At], Own = (WCHAR)(unsigned char)Text[At];
        WCHAR Lower = (WCHAR)(Given >= 'A' && Given <= 'Z' ? Given + 32 : Given);
        if (Lower != (Own >= 'A' && Own <= 'Z' ? Own + 32 : Own) || Own == 0) {
            return FALSE;
        }
    }
    return Text[Length] == 0;
}

NTSTATUS ZwQueryValueKey(HANDLE KeyHandle, PUNICODE_STRING ValueName, KEY_VALUE_INFORMATION_CLASS Class, PVOID Information,
                         ULONG Length, PULONG ResultLength) {
    const VIDMM_OBJECT *Key = (const VIDMM_OBJECT *)KeyHandle;
    PKEY_VALUE_PARTIAL_INFORMATION Partial = (PKEY_VALUE_PARTIAL_INFORMATION)Information;
    UINT At = 0;
    WCHAR Text[sizeof(g_Values[0].Value)];
    ULONG Number, Size, Header = (ULONG)FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data);
    char *End;
    BOOLEAN IsNumber;
    VidmmCheckIrql("ZwQueryValueKey", PASSIVE_LEVEL);
    if (Key == NULL || Key->Kind != VidmmKey) {
        return STATUS_INVALID_HANDLE;
    }
    if (Class != KeyValuePartialInformation) {
        return STATUS_INVALID_PARAMETER;
    }
    while (At < g_ValueCount && !IsNamed(ValueName, g_Values[At].Name)) {
        At++;
    }
    if (At == g_ValueCount) {
        return STATUS_OBJECT_NAME_NOT_FOUND;
    }
    Number = (ULONG)strtoul(g_Values[At].Value, &End, 0);
    IsNumber = End != g_Values[At].Value && *End == 0;
    for (Size = 0; g_Values[At].Value[Size] != 0; Size++) {
        Text[Size] = (unsigned char)g_Values[At].Value[Size];
    }
    Text[Size] = 0;
    Size = IsNumber ? (ULONG)sizeof(Number) : (Size + 1) * (ULONG)sizeof(WCHAR);
    *ResultLength = Header + Size;
    if (Length < Header) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    Partial->TitleIndex = 0;
    Partial->Type = IsNumber ? REG_DWORD : REG_SZ;
    Partial->DataLength = Size;
    if (Length < Header + Size) {
        return STATUS_BUFFER_OVERFLOW;
    }
    RtlCopyMemory(Partial->Data, IsNumber ? (const VOID *)&Number : (const VOID *)Text, Size);
    return STATUS_SUCCESS;
}
