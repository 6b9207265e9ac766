/*
 * A policy of eviction in C, for `--policy ./policy.so`. It orders the allocations that may go, and can break no rule: an answer that
 * is no candidate is named by its rule (POL-01 to POL-05 in docs/guides/own-policies.md), and the first candidate goes.
 *
 * A run makes a policy by Create. Runs on several threads have policies of their own; one policy is called by one thread at a time.
 * Every hook must do the same for the same calls: draws follow from a parameter. A pointer is valid until the hook returns.
 *
 *     cc -shared -fPIC -I crates/vidmm-ddi/include policy.c -o policy.so
 *     vidmm replay trace.csv --policy lru,./policy.so
 */
#ifndef VIDMM_POLICY_H
#define VIDMM_POLICY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VIDMM_POLICY_VERSION 1
#define VIDMM_POLICY_MAX_PARAMETERS 4

/* Ranks are below this one. */
#define VIDMM_POLICY_RANKS (UINT64_C(1) << 56)

/* An allocation. */
typedef struct VIDMM_SUBJECT {
    uint64_t Allocation;
    uint64_t Slot; /* its number among all that exist now, for tables; free for another when Gone has returned */
    uint64_t Size; /* bytes */
} VIDMM_SUBJECT;

/* An allocation that may go now. */
typedef struct VIDMM_CANDIDATE {
    uint64_t Slot;
    uint64_t Rank;
    uint64_t Size;
} VIDMM_CANDIDATE;

/* The allocations of one memory that may go now. The functions take the pointer that Victim was given. */
typedef struct VIDMM_CANDIDATES VIDMM_CANDIDATES;
struct VIDMM_CANDIDATES {
    uint32_t Memory; /* the number of the segment; 0 is system memory */
    /* Writes the candidate of the lowest rank from Rank on; of several, the one that has it for longest. Returns 0 if there is none. */
    int (*FirstFrom)(const VIDMM_CANDIDATES *Candidates, uint64_t Rank, VIDMM_CANDIDATE *Candidate);
    /* Writes the allocation of a slot. Returns 0 if it is no candidate. */
    int (*Get)(const VIDMM_CANDIDATES *Candidates, uint64_t Slot, VIDMM_CANDIDATE *Candidate);
    /* Gives a candidate another rank. Does nothing if the slot has none. */
    void (*SetRank)(const VIDMM_CANDIDATES *Candidates, uint64_t Slot, uint64_t Rank);
};

/* A parameter, a whole number: `./policy.so:key=7`. A policy that draws has a parameter "seed". */
typedef struct VIDMM_PARAMETER {
    const char *Key;
    uint64_t Default;
    uint64_t Least;
    uint64_t Most;
} VIDMM_PARAMETER;

/* A kind of policies. A hook that is NULL is not called. */
typedef struct VIDMM_POLICY {
    uint32_t Version; /* VIDMM_POLICY_VERSION */
    uint32_t NumParameters;
    const VIDMM_PARAMETER *Parameters;
    /* Makes a policy from the values of the parameters; NULL if there is no memory. */
    void *(*Create)(const uint64_t *Values);
    void (*Destroy)(void *Policy);
    /* A use: the allocation joins the list of a device, or a DMA buffer refers to it. Time counts submissions. */
    void (*Used)(void *Policy, const VIDMM_SUBJECT *Subject, uint64_t Time);
    /* It gets a place in a memory. */
    void (*BroughtIn)(void *Policy, const VIDMM_SUBJECT *Subject, uint32_t Memory);
    /* No list names it any more; the last submission under which one did had the number LastUse. */
    void (*Released)(void *Policy, const VIDMM_SUBJECT *Subject, uint64_t LastUse);
    /* The rank of an allocation that becomes a candidate. NULL: the number of its last use. */
    uint64_t (*Rank)(void *Policy, uint64_t Slot);
    /* The slot of the candidate that goes; there is one. NULL: the candidate of the lowest rank. */
    uint64_t (*Victim)(void *Policy, const VIDMM_CANDIDATES *Candidates);
    /* It has left a memory. */
    void (*Left)(void *Policy, const VIDMM_SUBJECT *Subject, uint32_t Memory);
    /* It is no more. */
    void (*Gone)(void *Policy, const VIDMM_SUBJECT *Subject);
} VIDMM_POLICY;

/* Exported by the library. The table is static. */
const VIDMM_POLICY *VidmmGetPolicy(void);

#ifdef __cplusplus
}
#endif

#endif
