/* A policy with a broken rule, and tables of no policy, by macros. */
#include <stdlib.h>
#include <vidmm/policy.h>

static const VIDMM_CANDIDATES *Kept;

static void *Create(const uint64_t *Values)
{
    (void)Values;
#ifdef NO_POLICY
    return NULL;
#else
    return &Kept;
#endif
}

static void Destroy(void *Of)
{
    (void)Of;
    Kept = NULL;
}

static uint64_t Rank(void *Of, uint64_t Slot)
{
    VIDMM_CANDIDATE Candidate;
    (void)Of;
    if (Kept) {
        Kept->FirstFrom(Kept, 0, &Candidate);
    }
#ifdef LARGE_RANK
    return UINT64_MAX - Slot;
#else
    return Slot;
#endif
}

static uint64_t Victim(void *Of, const VIDMM_CANDIDATES *Candidates)
{
    VIDMM_CANDIDATE Candidate = {0};
    (void)Of;
    (void)Candidates;
    (void)Candidate;
#ifdef KEEPS
    Kept = Candidates;
#endif
#ifdef LARGE_RANK_OF_CANDIDATE
    Candidates->FirstFrom(Candidates, 0, &Candidate);
    Candidates->SetRank(Candidates, Candidate.Slot, VIDMM_POLICY_RANKS);
#endif
#ifdef NULL_CANDIDATES
    Candidates->Get(NULL, 0, &Candidate);
    Candidates->Get(Candidates, 0, NULL);
#endif
#ifdef NO_END
    while (Candidates->FirstFrom(Candidates, 0, &Candidate)) {
    }
    return 0;
#endif
#ifdef NO_CANDIDATE
    return UINT64_MAX;
#else
    Candidates->FirstFrom(Candidates, 0, &Candidate);
    return Candidate.Slot;
#endif
}

#ifdef NOTHING_THERE
static int Prefetch(void *Of, uint32_t Memory, uint64_t Free, uint64_t *Slot)
{
    (void)Of;
    (void)Memory;
    (void)Free;
    *Slot = UINT64_MAX;
    return 1;
}
#endif

const VIDMM_POLICY *VidmmGetPolicy(void)
{
#ifdef NO_TABLE
    return NULL;
#endif
    static const VIDMM_PARAMETER Parameters[] = {
#ifdef NO_KEY
        {NULL, 0, 0, 1},
#elif defined(WRONG_KEY)
        {"a=b", 0, 0, 1},
#elif defined(WRONG_DEFAULT)
        {"key", 2, 0, 1},
#else
        {"key", 1, 0, 1},
#endif
    };
    static VIDMM_POLICY Table = {
        .Version = VIDMM_POLICY_VERSION,
        .NumParameters = 1,
        .Parameters = Parameters,
        .Create = Create,
        .Destroy = Destroy,
        .Rank = Rank,
        .Victim = Victim,
#ifdef NOTHING_THERE
        .Prefetch = Prefetch,
#endif
    };
#ifdef OTHER_VERSION
    Table.Version = 99;
#endif
#ifdef NO_CREATE
    Table.Create = NULL;
#endif
#ifdef NO_ORDER
    Table.Rank = NULL;
    Table.Victim = NULL;
#endif
#ifdef MANY_PARAMETERS
    Table.NumParameters = UINT32_MAX;
#endif
#ifdef NO_PARAMETERS
    Table.Parameters = NULL;
#endif
    return &Table;
}
