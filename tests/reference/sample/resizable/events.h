/* Events of Delay: the laws between two of them, and their indicators. */

#ifndef RB_EVENTS_H
#define RB_EVENTS_H

#include <math.h>

#define RB_INDICATORS 0


#endif
