/*
 * First in, first out: the allocation goes that came in first.
 *
 *     cc -shared -fPIC -I crates/vidmm-ddi/include crates/vidmm-ddi/examples/policies/fifo.c -o fifo.so
 *     vidmm replay scenarios/cyclic.toml --policy lru,./fifo.so
 */
#include <stdlib.h>
#include <vidmm/policy.h>

typedef struct {
    uint64_t Arrivals;
    uint64_t NumSlots;
    uint64_t *ArrivedAt; /* by slot */
} FIFO;

static void *Create(const uint64_t *Values)
{
    (void)Values;
    return calloc(1, sizeof(FIFO));
}

static void Destroy(void *Policy)
{
    FIFO *Fifo = Policy;
    free(Fifo->ArrivedAt);
    free(Fifo);
}

static void BroughtIn(void *Policy, const VIDMM_SUBJECT *Subject, uint32_t Memory)
{
    FIFO *Fifo = Policy;
    (void)Memory;
    if (Subject->Slot >= Fifo->NumSlots) {
        uint64_t NumSlots = 2 * Subject->Slot + 16;
        uint64_t *ArrivedAt = realloc(Fifo->ArrivedAt, NumSlots * sizeof *ArrivedAt);
        if (!ArrivedAt) {
            abort();
        }
        Fifo->ArrivedAt = ArrivedAt;
        Fifo->NumSlots = NumSlots;
    }
    Fifo->ArrivedAt[Subject->Slot] = ++Fifo->Arrivals;
}

/* Victim is NULL: the candidate of the lowest rank goes. */
static uint64_t Rank(void *Policy, uint64_t Slot)
{
    return ((FIFO *)Policy)->ArrivedAt[Slot];
}

const VIDMM_POLICY *VidmmGetPolicy(void)
{
    static const VIDMM_POLICY Table = {
        .Version = VIDMM_POLICY_VERSION,
        .Create = Create,
        .Destroy = Destroy,
        .BroughtIn = BroughtIn,
        .Rank = Rank,
    };
    return &Table;
}
