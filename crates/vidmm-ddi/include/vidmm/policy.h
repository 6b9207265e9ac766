/*
 * A policy of eviction in C, for `--policy ./policy.so`. The policy orders candidates of eviction, and can break no rule of the manager.
 * docs/guides/own-policies.md lists the rules of policies, POL-01 to POL-06. A wrong answer is named, and the first candidate goes.
 *
 * A run makes a policy by Create. Each run has a policy, and calls the policy from one thread at a time; runs may be on several threads.
 * Hooks do the same for the same calls: draws follow from a parameter. A pointer is valid until the hook returns.
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

#define VIDMM_POLICY_VERSION 2
#define VIDMM_POLICY_MAX_PARAMETERS 4

/* Ranks are below this one. */
#define VIDMM_POLICY_RANKS (UINT64_C(1) << 56)

/* An allocation. */
typedef struct VIDMM_SUBJECT {
    uint64_t Allocation;
    uint64_t Slot; /* a number among all allocations of now, for tables; free for another allocation after Gone */
    uint64_t Size; /* bytes */
} VIDMM_SUBJECT;

/* A candidate of eviction. */
typedef struct VIDMM_CANDIDATE {
    uint64_t Slot;
    uint64_t Rank;
    uint64_t Size;
} VIDMM_CANDIDATE;

/* The candidates of one memory. The functions take the pointer of Victim's argument. */
typedef struct VIDMM_CANDIDATES VIDMM_CANDIDATES;
struct VIDMM_CANDIDATES {
    uint32_t Memory; /* the number of the segment; 0 is system memory */
    /* Writes the candidate of the lowest rank from Rank on; of equal ranks, the oldest. Returns 0 without a candidate. */
    int (*FirstFrom)(const VIDMM_CANDIDATES *Candidates, uint64_t Rank, VIDMM_CANDIDATE *Candidate);
    /* Writes the candidate of a slot. Returns 0 if the slot is no candidate. */
    int (*Get)(const VIDMM_CANDIDATES *Candidates, uint64_t Slot, VIDMM_CANDIDATE *Candidate);
    /* Gives a candidate another rank. Does nothing if the slot has none. */
    void (*SetRank)(const VIDMM_CANDIDATES *Candidates, uint64_t Slot, uint64_t Rank);
};

/* A parameter, a whole number: `./policy.so:key=7`. A policy with draws has a parameter "seed". */
typedef struct VIDMM_PARAMETER {
    const char *Key;
    uint64_t Default;
    uint64_t Least;
    uint64_t Most;
} VIDMM_PARAMETER;

/* A kind of policies. Any hook may be NULL, but either Rank or Victim is there. */
typedef struct VIDMM_POLICY {
    uint32_t Version; /* VIDMM_POLICY_VERSION */
    uint32_t NumParameters;
    const VIDMM_PARAMETER *Parameters;
    /* Makes a policy from the values of the parameters; NULL if there is no memory. */
    void *(*Create)(const uint64_t *Values);
    void (*Destroy)(void *Policy);
    /* A use: the allocation joins the list of a device, or a DMA buffer refers to it. Time counts submissions. */
    void (*Used)(void *Policy, const VIDMM_SUBJECT *Subject, uint64_t Time);
    /* The allocation gets a place in a memory. */
    void (*BroughtIn)(void *Policy, const VIDMM_SUBJECT *Subject, uint32_t Memory);
    /* The allocation has left all lists; LastUse is the number of the last submission under such a list. */
    void (*Released)(void *Policy, const VIDMM_SUBJECT *Subject, uint64_t LastUse);
    /* The rank of a new candidate. NULL: the number of the last use. */
    uint64_t (*Rank)(void *Policy, uint64_t Slot);
    /* The slot of the victim, which is a candidate. NULL: the candidate of the lowest rank. */
    uint64_t (*Victim)(void *Policy, const VIDMM_CANDIDATES *Candidates);
    /* The allocation has left a memory. */
    void (*Left)(void *Policy, const VIDMM_SUBJECT *Subject, uint32_t Memory);
    /* The allocation is no more. */
    void (*Gone)(void *Policy, const VIDMM_SUBJECT *Subject);
    /* Whether the content of a candidate may be copied out before the eviction: 0 if the policy expects another write first. NULL: yes. */
    int (*Cleans)(void *Policy, const VIDMM_CANDIDATE *Candidate);
    /* The device of an allocation has announced that it needs the allocation soon. NULL: a use, where Rank is NULL. */
    void (*Announced)(void *Policy, const VIDMM_SUBJECT *Subject, uint64_t Time);
    /* Chooses an allocation that comes into Free bytes of a memory before its use, while engines leave the bus alone. Writes the slot and
       returns 1, or returns 0 for none. Nothing is evicted for the allocation. */
    int (*Prefetch)(void *Policy, uint32_t Memory, uint64_t Free, uint64_t *Slot);
} VIDMM_POLICY;

/* Exported by the library. The table is static. */
const VIDMM_POLICY *VidmmGetPolicy(void);

#ifdef __cplusplus
}
#endif

#endif
