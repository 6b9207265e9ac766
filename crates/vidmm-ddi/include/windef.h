/* Everything of this is in ntdef.h. */
#include "ntdef.h"
